create function pgq._job_counts(queue_ids bigint[], moment timestamptz)
returns setof pgq._job_figures
language plpgsql stable parallel safe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    -- A table of at most this many pages is read as a whole; of a larger one, about as many are
    -- sampled.
    most_pages constant double precision := 500;
    page_size double precision := current_setting('block_size')::double precision;
    job_share double precision := least(
        most_pages * page_size / greatest(pg_relation_size('pgq.job'), 1), 1
    );
    run_share double precision := least(
        most_pages * page_size / greatest(pg_relation_size('pgq.job_run'), 1), 1
    );
    dead_share double precision := least(
        most_pages / 2 * page_size / greatest(pg_relation_size('pgq.dead_job'), 1), 1
    );
    -- In a large table, the first rows of each queue and priority are counted, at most this many.
    most constant integer := greatest(least(20000 / greatest(cardinality(queue_ids), 1), 1000), 20);
begin
    return query
    with sampled as materialized (
        select
            k.queue_id, count(*) filter (where k.visible_at <= moment and not e.expired) as ready,
            count(*) filter (where e.leased) as leased,
            count(*) filter (
                where k.visible_at > moment and k.lease_token is null
                and k.due_at is null and not e.expired
            ) as delayed,
            count(*) filter (where k.due_at is not null and not e.expired) as waiting,
            count(*) filter (where e.expired and not e.leased) as expired,
            count(*) filter (where k.last_error is not null or k.attempt > 1) as retrying
        from pgq.job as k tablesample system (100 * job_share) repeatable (1)
        cross join lateral (
            select
                coalesce(k.expires_at <= moment, false) as expired,
                k.visible_at > moment and k.lease_token is not null as leased
        ) as e
        group by k.queue_id
    ),

    runs as materialized (
        select
            r.queue_id,
            sum(r.jobs) filter (where r.visible_at <= moment and not e.expired) as ready,
            sum(r.jobs) filter (where r.visible_at > moment and not e.expired) as delayed,
            sum(r.jobs) filter (where e.expired) as expired
        from pgq.job_run as r tablesample system (100 * run_share) repeatable (1)
        cross join lateral (select coalesce(r.expires_at <= moment, false) as expired) as e
        group by r.queue_id
    ),

    dead as materialized (
        select d.queue_id, count(*) as dead
        from pgq.dead_job as d tablesample system (100 * dead_share) repeatable (1)
        group by d.queue_id
    ),

    -- A sample misses short queues, and the leased jobs of long ones: count by index the first rows
    -- of each priority, and the first that are not due. Begin at the low-water marks (floors), as
    -- claims do: below them there may be many dead index entries.
    first_due as materialized (
        select
            q.queue_id, sum(k.seen) as jobs, sum(k.retrying) as retrying,
            bool_or(k.seen = most) as more
        from unnest(queue_ids) as q (queue_id)
        cross join lateral pgq._queue_floors(q.queue_id) as f
        cross join lateral (
            select
                count(*) as seen,
                count(*) filter (where j.last_error is not null or j.attempt > 1) as retrying
            from (
                select j.last_error, j.attempt
                from pgq.job as j
                where j.queue_id = q.queue_id
                    and j.priority = f.priority
                    and j.visible_at >= f.floor_time
                    and j.visible_at <= moment
                order by j.visible_at, j.job_id
                limit most
            ) as j
        ) as k
        where job_share < 1
        group by q.queue_id
    ),

    first_later as materialized (
        select
            q.queue_id, sum(k.leased) as leased, sum(k.delayed) as delayed,
            sum(k.retrying) as retrying, bool_or(k.seen = most) as more
        from unnest(queue_ids) as q (queue_id)
        cross join generate_series(0, 9) as f (priority)
        cross join lateral (
            select
                count(*) as seen, count(*) filter (where j.lease_token is not null) as leased,
                count(*) filter (where j.lease_token is null) as delayed,
                count(*) filter (where j.last_error is not null or j.attempt > 1) as retrying
            from (
                select j.lease_token, j.last_error, j.attempt
                from pgq.job as j
                where j.queue_id = q.queue_id
                    and j.priority = f.priority
                    and j.visible_at > moment
                    and j.visible_at < 'infinity'
                order by j.visible_at, j.job_id
                limit most
            ) as j
        ) as k
        where job_share < 1
        group by q.queue_id
    ),

    first_dead as materialized (
        select q.queue_id, k.seen as dead
        from unnest(queue_ids) as q (queue_id)
        cross join lateral (
            select count(*) as seen
            from (
                select
                from pgq.dead_job as d
                where d.queue_id = q.queue_id
                order by d.died_at, d.job_id
                limit most
            ) as d
        ) as k
        where dead_share < 1
    )

    select
        q.queue_id,
        coalesce(
            case
                when u.more then greatest(s.ready / job_share, u.jobs)
                else coalesce(u.jobs, s.ready)
            end,
            0
        ) + coalesce(r.ready / run_share, 0),
        coalesce(
            case
                when l.more then greatest(s.leased / job_share, l.leased)
                else coalesce(l.leased, s.leased)
            end,
            0
        ),
        coalesce(
            case
                when l.more then greatest(s.delayed / job_share, l.delayed)
                else coalesce(l.delayed, s.delayed)
            end,
            0
        ) + coalesce(r.delayed / run_share, 0),
        coalesce(s.waiting / job_share, 0),
        coalesce(s.expired / job_share, 0) + coalesce(r.expired / run_share, 0),
        coalesce(
            case
                when u.more or l.more then greatest(s.retrying / job_share, u.retrying + l.retrying)
                else coalesce(u.retrying + l.retrying, s.retrying)
            end,
            0
        ),
        coalesce(
            case
                when w.dead = most then greatest(d.dead / dead_share, w.dead)
                else coalesce(w.dead, d.dead)
            end,
            0
        ),
        coalesce(u.more or l.more or s.waiting > 0 and job_share < 1, false)
        or coalesce(r.queue_id is not null and run_share < 1, false)
        or coalesce(w.dead = most, false)
    from unnest(queue_ids) as q (queue_id)
    left join sampled as s on s.queue_id = q.queue_id
    left join runs as r on r.queue_id = q.queue_id
    left join dead as d on d.queue_id = q.queue_id
    left join first_due as u on u.queue_id = q.queue_id
    left join first_later as l on l.queue_id = q.queue_id
    left join first_dead as w on w.queue_id = q.queue_id;
end
$$;

comment on function pgq._job_counts(bigint[], timestamptz) is
'The number of jobs of queues, by state: counted while the tables are small, else estimated from a
sample of their pages, with short queues counted by index. The rows read are bounded.';
