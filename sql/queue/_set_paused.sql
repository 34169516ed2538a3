create function pgq._set_paused(queue text, paused boolean)
returns setof pgq.queue_info
language plpgsql volatile parallel unsafe rows 1
as $$
begin
    perform pgq._check_access(null, queue, 'admin');
    loop
        update pgq.queue as q set paused = _set_paused.paused where q.queue = _set_paused.queue;

        exit when found;
        perform pgq._check_queue(queue);
    end loop;

    if not paused then
        perform pgq._announce_queue(q.queue_id)
        from pgq.queue as q
        where q.queue = _set_paused.queue;
    end if;

    return query select i.* from pgq._queue_info(queue) as i;
end
$$;

comment on function pgq._set_paused(text, boolean) is
'Implements pause_queue and resume_queue.';
