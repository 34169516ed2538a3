create function pgq._job_counts(queue_ids bigint[], now_at timestamptz)
returns setof pgq._job_figures
language plpgsql stable parallel safe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    -- A table of at most this size (500 pages) is read as a whole; of a larger one, about as much
    -- is sampled.
    most_bytes constant double precision := 500 * current_setting('block_size')::double precision;
    job_share double precision := least(most_bytes / greatest(pg_relation_size('pgq.job'), 1), 1);
    extent_share double precision := least(
        most_bytes / greatest(pg_relation_size('pgq.job_extent'), 1), 1
    );
    dead_share double precision := least(
        most_bytes / 2 / greatest(pg_relation_size('pgq.dead_job'), 1), 1
    );
    -- In a large table, the first rows of each queue and priority are counted, at most this many.
    most constant integer := greatest(least(20000 / greatest(cardinality(queue_ids), 1), 1000), 20);
begin
    return query
    with sampled as materialized (
        select
            k.queue_id, count(*) filter (where k.visible_at <= now_at and not e.expired) as ready,
            count(*) filter (where e.leased) as leased,
            count(*) filter (
                where k.visible_at > now_at and k.lease_token is null
                and k.due_at is null and not e.expired
            ) as delayed,
            count(*) filter (where k.due_at is not null and not e.expired) as waiting,
            count(*) filter (where e.expired and not e.leased) as expired,
            count(*) filter (where k.last_error is not null or k.attempt > 1) as retrying
        from pgq.job as k tablesample system (100 * job_share) repeatable (1)
        cross join lateral (
            select
                coalesce(k.expires_at <= now_at, false) as expired,
                k.visible_at > now_at and k.lease_token is not null as leased
        ) as e
        group by k.queue_id
    ),

    extents as materialized (
        select
            r.queue_id,
            sum(r.jobs) filter (where r.visible_at <= now_at and not e.expired) as ready,
            sum(r.jobs) filter (where r.visible_at > now_at and not e.expired) as delayed,
            sum(r.jobs) filter (where e.expired) as expired
        from pgq.job_extent as r tablesample system (100 * extent_share) repeatable (1)
        cross join lateral (select coalesce(r.expires_at <= now_at, false) as expired) as e
        group by r.queue_id
    ),

    dead as materialized (
        select d.queue_id, count(*) as dead
        from pgq.dead_job as d tablesample system (100 * dead_share) repeatable (1)
        group by d.queue_id
    ),

    -- A sample misses short queues, and the leased jobs of long ones.
    firsts as materialized (
        select j.* from pgq._first_jobs(queue_ids, now_at, most) as j where job_share < 1
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

    -- Without a count by index, the sample is the whole table.
    select
        q.queue_id,
        coalesce(
            case when not f.more_ready then f.ready else greatest(s.ready / job_share, f.ready) end,
            0
        ) + coalesce(r.ready / extent_share, 0),
        coalesce(
            case when not f.more_later then f.leased else greatest(s.leased / job_share, f.leased)
            end,
            0
        ),
        coalesce(
            case
                when not f.more_later then f.delayed
                else greatest(s.delayed / job_share, f.delayed)
            end,
            0
        ) + coalesce(r.delayed / extent_share, 0),
        coalesce(s.waiting / job_share, 0),
        coalesce(s.expired / job_share, 0) + coalesce(r.expired / extent_share, 0),
        coalesce(
            case
                when not (f.more_ready or f.more_later) then f.retrying
                else greatest(s.retrying / job_share, f.retrying)
            end,
            0
        ),
        coalesce(
            case when w.dead < most then w.dead else greatest(d.dead / dead_share, w.dead) end, 0
        ),
        coalesce(
            f.more_ready or f.more_later or w.dead = most
            or s.waiting > 0 and job_share < 1
            or r.queue_id is not null and extent_share < 1, false
        )
    from unnest(queue_ids) as q (queue_id)
    left join sampled as s on s.queue_id = q.queue_id
    left join extents as r on r.queue_id = q.queue_id
    left join dead as d on d.queue_id = q.queue_id
    left join firsts as f on f.queue_id = q.queue_id
    left join first_dead as w on w.queue_id = q.queue_id;
end
$$;

comment on function pgq._job_counts(bigint[], timestamptz) is
'The number of jobs of queues, by state: counted while the tables are small, else estimated from a
sample of their pages, with short queues counted by index. The rows read are bounded.';
