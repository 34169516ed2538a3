create function pgq._expired_jobs(objects int8multirange, now_at timestamptz, max_jobs integer)
returns bigint[]
language plpgsql volatile parallel unsafe
as $$
declare
    batch record;
    found_ids bigint[] := '{}';
    few constant integer := 100;
begin
    -- Examine the 100 jobs of each priority that are due longest, and more only if at least half of
    -- these have expired. Claims skip expired jobs further on; these are found at the front later,
    -- or when their segment is emptied. Blocked jobs sort last (visible_at is infinity),
    -- and are examined in the same way.
    for batch in
        select q.queue_id, p.priority, s.due_before, f.seen, f.expired_ids, f.last_at, f.last_id
        from pgq.queue as q
        -- Skip empty queues early: of thousands most are empty.
        cross join lateral (select from pgq.job as j where j.queue_id = q.queue_id limit 1) as a
        cross join generate_series(0, 9) as p (priority)
        cross join lateral (
            values ('-infinity'::timestamptz, 'infinity'::timestamptz), ('infinity', null)
        ) as s (due_from, due_before)
        cross join lateral (
            select
                count(*) as seen,
                array_agg(j.job_id) filter (
                    where j.expires_at <= now_at
                    and (j.lease_token is null or j.visible_at <= now_at)
                ) as expired_ids,
                max(j.visible_at) as last_at,
                (array_agg(j.job_id order by j.visible_at desc, j.job_id desc))[1] as last_id
            from (
                select k.*
                from pgq.job as k
                where k.queue_id = q.queue_id
                    and k.priority = p.priority
                    and k.visible_at >= s.due_from
                    and (s.due_before is null or k.visible_at < s.due_before)
                order by k.visible_at, k.job_id
                limit few
            ) as j
        ) as f
        where q.queue_id <@ objects
            and f.expired_ids is not null
            and (q.ordered or q.max_leased_per_key is not null or s.due_before is not null)
    loop
        found_ids := found_ids || batch.expired_ids;
        exit when cardinality(found_ids) >= max_jobs;
        continue when batch.seen < few or cardinality(batch.expired_ids) * 2 < few;

        found_ids := found_ids || array(
            select j.job_id
            from (
                select k.*
                from pgq.job as k
                where k.queue_id = batch.queue_id
                    and k.priority = batch.priority
                    and (k.visible_at, k.job_id) > (batch.last_at, batch.last_id)
                    and (batch.due_before is null or k.visible_at < batch.due_before)
                order by k.visible_at, k.job_id
                limit max_jobs - cardinality(found_ids)
            ) as j
            where j.expires_at <= now_at and (j.lease_token is null or j.visible_at <= now_at)
        );
    end loop;

    return found_ids[1:max_jobs];
end
$$;

comment on function pgq._expired_jobs(int8multirange, timestamptz, integer) is
'Returns jobs that are past the job_ttl of their queue, one of these, and not leased; max_jobs at
most.';
