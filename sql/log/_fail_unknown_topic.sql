create function pgq._fail_unknown_topic(topic text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if topic is null then
        raise exception 'argument "topic" must not be null' using errcode = '22004';
    end if;
    raise exception 'unknown topic "%"', topic
        using errcode = 'MQ001',
            hint = 'pgq.create_topic creates it; if it exists, this role needs pgq.grant_access.';
end
$$;

comment on function pgq._fail_unknown_topic(text) is
'Raises MQ001, or 22004 when the name is null.';
