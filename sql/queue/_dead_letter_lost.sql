create function pgq._dead_letter_lost(objects int8multirange, now_at timestamptz, max_jobs bigint)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    dead_lettered bigint;
begin
    for target in
        select q.queue, q.max_attempts, array_agg(l.job_id) as job_ids
        from (
            select j.job_id, j.queue_id
            from pgq.job as j
            inner join pgq.queue as p on p.queue_id = j.queue_id
            where j.last_attempt
                and j.queue_id <@ objects
                and j.visible_at <= now_at
                -- max_attempts may have been raised since last_attempt was set.
                and j.attempt >= coalesce(j.max_attempts, p.max_attempts)
            order by j.visible_at
            limit max_jobs
        ) as l
        inner join pgq.queue as q on q.queue_id = l.queue_id
        group by q.queue, q.max_attempts
    loop
        dead_lettered := pgq._dead_letter_exhausted(target.job_ids, target.max_attempts, now_at);
        if dead_lettered > 0 then
            return next row('jobs died', target.queue, dead_lettered)::pgq.cleanup_action;
        end if;
    end loop;
end
$$;

comment on function pgq._dead_letter_lost(int8multirange, timestamptz, bigint) is
'Dead-letters jobs of these queues whose lease ran out on the last attempt, max_jobs at most.';
