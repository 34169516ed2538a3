create function pgq._queue_id(queue text, access text)
returns bigint
language plpgsql stable parallel unsafe
as $$
declare
    target_id bigint;
begin
    perform pgq._check_access(null, queue, access);

    select q.queue_id into target_id from pgq.queue as q where q.queue = _queue_id.queue;

    if target_id is null then
        perform pgq._fail_unknown_queue(queue);
    end if;
    return target_id;
end
$$;

comment on function pgq._queue_id(text, text) is
'The id of a queue to which the caller has this access; errors as in _check_access.';
