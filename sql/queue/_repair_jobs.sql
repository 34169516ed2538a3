create function pgq._repair_jobs(now_at timestamptz, longest_lease interval, max_rows bigint)
returns table (action text, target text, amount bigint)
language plpgsql volatile parallel unsafe
as $$
begin
    -- Delete and insert instead of update, see pgq.job. SKIP LOCKED: rows that another transaction
    -- holds are left out.
    return query
    with ahead as materialized (select a.* from pgq._ahead_extents(now_at) as a limit max_rows),

    locked as materialized (
        select r.queue_id, r.visible_at, r.extent_id, a.visible_at as right_at
        from ahead as a
        inner join pgq.job_extent as r on r.queue_id = a.queue_id and r.extent_id = a.extent_id
        order by r.extent_id
        for update of r skip locked
    ),

    gone as (
        delete from pgq.job_extent as r
        using locked as l
        where r.queue_id = l.queue_id and r.visible_at = l.visible_at and r.extent_id = l.extent_id
        returning r.*, l.right_at
    ),

    returned as (
        insert into pgq.job_extent (
            queue_id,
            visible_at,
            extent_id,
            partition_id,
            first_offset,
            expires_at,
            segment,
            jobs,
            ordinals
        )
        select
            g.queue_id,
            g.right_at,
            g.extent_id,
            g.partition_id,
            g.first_offset,
            g.expires_at,
            g.segment,
            g.jobs,
            g.ordinals
        from gone as g
        returning queue_id, jobs
    )

    select 'jobs set back', q.queue, sum(r.jobs)
    from returned as r
    inner join pgq.queue as q on q.queue_id = r.queue_id
    group by q.queue;

    return query
    with ahead as materialized (
        select a.*
        from pgq._ahead_jobs(now_at, longest_lease, null) as a
        limit max_rows
    ),

    locked as materialized (
        select a.*
        from ahead as a
        inner join pgq.job as j on j.job_id = a.job_id
        order by j.job_id
        for update of j skip locked
    ),

    gone as (
        delete from pgq.job as j
        using locked as l
        where j.job_id = l.job_id
        returning j as job, l.leased, l.visible_at as right_at, l.due_at as right_due_at
    ),

    returned as (
        insert into pgq.job
        select m.*
        from gone as g
        cross join lateral pgq._moved_job(
            g.job, g.right_at, (g.job).lease_token, (g.job).ordered_key, g.right_due_at
        ) as m
        returning queue_id, lease_token is not null as leased
    )

    select case when r.leased then 'leases cut' else 'jobs set back' end, q.queue, count(*)
    from returned as r
    inner join pgq.queue as q on q.queue_id = r.queue_id
    group by q.queue, r.leased;
end
$$;

comment on function pgq._repair_jobs(timestamptz, interval, bigint) is
'Corrects job times and cuts leases that are too long, up to max_rows of each; a step of
repair_clock.';
