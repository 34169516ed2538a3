create function pgq._check_queue(queue text)
returns void
language plpgsql stable parallel safe
as $$
begin
    if not exists (select from pgq.queue as q where q.queue = _check_queue.queue) then
        perform pgq._fail_unknown_queue(queue);
    end if;
end
$$;

comment on function pgq._check_queue(text) is
'Raises MQ002 when the queue does not exist, or 22004 when the name is null.
A caller that waited for the row of a queue and does not find it calls this, then retries: the queue
may have been dropped and created again meanwhile.';
