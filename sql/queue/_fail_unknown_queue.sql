create function pgq._fail_unknown_queue(queue text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if queue is null then
        raise exception 'argument "queue" must not be null' using errcode = '22004';
    end if;
    raise exception 'unknown queue "%"', queue
        using errcode = 'MQ002',
            hint = 'pgq.create_queue creates it; if it exists, this role needs pgq.grant_access.';
end
$$;

comment on function pgq._fail_unknown_queue(text) is
'Raises MQ002, or 22004 when the name is null.';
