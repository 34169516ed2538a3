create function pgq._fail_queue_exists(queue text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    raise exception 'queue "%" already exists', _fail_queue_exists.queue
        using errcode = 'MQ005',
            hint = 'Change its settings with pgq.alter_queue.';
end
$$;

comment on function pgq._fail_queue_exists(text) is
'Raises MQ005.';
