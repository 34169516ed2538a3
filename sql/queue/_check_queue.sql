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
'Raises MQ002 when there is no queue of this name, or 22004 when no name was given.
Whoever waited for the row of a queue and does not find it calls this, and looks again: it may have
been dropped and created again meanwhile.';
