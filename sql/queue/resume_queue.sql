create function pgq.resume_queue(queue text)
returns setof pgq.queue_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
begin
    return query select i.* from pgq._set_paused(queue collate "C", false) as i;
end
$$;

comment on function pgq.resume_queue(text) is
'Hands out the jobs of a queue again after pause_queue, and returns the queue.
Nothing changes if it is not paused.
Errors: MQ002 unknown queue, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';
