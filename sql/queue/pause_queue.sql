create function pgq.pause_queue(queue text)
returns setof pgq.queue_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
begin
    return query select i.* from pgq._set_paused(queue collate "C", true) as i;
end
$$;

comment on function pgq.pause_queue(text) is
'Stops handing out jobs of a queue until resume_queue, and returns the queue.
Programs can still enqueue jobs, and workers can still finish the jobs that they have.
Errors: MQ002 unknown queue, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';
