create function pgq.job_history(job_id bigint)
returns setof pgq.job_attempt
language plpgsql stable parallel unsafe rows 20
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    if job_id is null then
        raise exception 'argument "job_id" must not be null' using errcode = '22004';
    end if;

    return query
    select e.attempt, e.event::text, e.began_at, e.ended_at, e.worker, e.error
    from pgq.job_event as e
    inner join pgq.queue as q on q.queue_id = e.queue_id
    where e.job_id = job_history.job_id
        and e.event in ('failed', 'lost', 'rejected')
        and (q.consumers is null or pgq._may(q.consumers))
    order by e.ended_at desc, e.attempt desc
    limit 20;
end
$$;

comment on function pgq.job_history(bigint) is
'Returns the unsuccessful attempts of a job, the latest first, 20 at most.
Each is kept for the retention of the queue, counted from its own time, even if the job succeeded
later. No row: no attempt failed, they are too old, or the caller may not consume the queue.
Errors: 22004 a required argument is null.';
