create function pgq._clean_jobs(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    return query
    with found as materialized (
        select j.job_id
        from pgq.job as j
        where j.expires_at <= _clean_jobs.moment
            and (j.lease_token is null or j.visible_at <= _clean_jobs.moment)
        for update skip locked
    ),

    expired as (
        delete from pgq.job as j
        using found as f
        where j.job_id = f.job_id
        returning j.*
    ),

    archived as (
        insert into pgq.job_archive (
            job_id, queue_id, ended_at, segment, attempt, outcome, label, last_error
        )
        select
            e.job_id,
            e.queue_id,
            _clean_jobs.moment,
            e.segment,
            e.attempt,
            'expired',
            e.label,
            e.last_error
        from expired as e
        inner join pgq.queue as q on q.queue_id = e.queue_id
        where q.archive
    )

    select 'jobs expired', q.queue, count(*)
    from expired as e
    inner join pgq.queue as q on q.queue_id = e.queue_id
    group by q.queue;

    return query
    with found as materialized (
        select j.job_id, j.queue_id, q.max_attempts
        from pgq.job as j
        inner join pgq.queue as q on q.queue_id = j.queue_id
        where j.attempt >= q.max_attempts
            and j.visible_at <= _clean_jobs.moment
        for update of j skip locked
    ),

    buried as (
        select pgq._bury(
            array[f.job_id], f.max_attempts, 'the lease of the last attempt ran out'
        ), f.queue_id
        from found as f
    )

    select 'jobs dead', q.queue, count(*)
    from buried as b
    inner join pgq.queue as q on q.queue_id = b.queue_id
    group by q.queue;

    return query
    with removed as (
        delete from pgq.dead_job as d
        using pgq.queue as q
        where q.queue_id = d.queue_id
            and d.died_at + q.retention <= _clean_jobs.moment
        returning q.queue
    )

    select 'dead letters removed', r.queue, count(*)
    from removed as r
    group by r.queue;

    -- An enqueue that was under way when its queue was dropped.
    delete from pgq.job as j
    where not exists (select from pgq.queue as q where q.queue_id = j.queue_id);
    delete from pgq.dead_job as d
    where not exists (select from pgq.queue as q where q.queue_id = d.queue_id);

    -- Nothing may be written below a floor; should the clock have been set back, jobs may stand
    -- there.
    return query
    with lock as materialized (
        select l.queue_id
        from pgq.queue_floor_lock as l
        for no key update skip locked
    ),

    stranded as (
        select
            f.queue_id,
            f.seq,
            f.recorded_at,
            f.safe_at,
            f.candidate_at,
            f.candidate_xid,
            s.floor_times,
            s.floor_ids
        from lock as l
        cross join lateral (
            select g.*
            from pgq.queue_floor as g
            where g.queue_id = l.queue_id
            order by g.seq desc
            limit 1
        ) as f
        cross join lateral (
            select
                array_agg(
                    case when j.below then j.visible_at else p.floor_time end order by p.place
                ) as floor_times,
                array_agg(
                    case when j.below then j.job_id else p.floor_id end order by p.place
                ) as floor_ids,
                bool_or(j.below) as below
            from unnest(f.floor_times, f.floor_ids)
                with ordinality as p (floor_time, floor_id, place)
            left join lateral (
                select
                    k.visible_at,
                    k.job_id,
                    (k.visible_at, k.job_id) < (p.floor_time, p.floor_id) as below
                from pgq.job as k
                where k.queue_id = f.queue_id
                    and k.priority = p.place - 1
                order by k.visible_at, k.job_id
                limit 1
            ) as j on true
        ) as s
        where s.below
    ),

    lowered as (
        insert into pgq.queue_floor (
            queue_id, seq, floor_times, floor_ids, recorded_at, safe_at, candidate_at, candidate_xid
        )
        select
            s.queue_id,
            s.seq + 1,
            s.floor_times,
            s.floor_ids,
            s.recorded_at,
            s.safe_at,
            s.candidate_at,
            s.candidate_xid
        from stranded as s
        on conflict do nothing
        returning queue_id
    )

    select 'floor lowered', q.queue, 1::bigint
    from lowered as l
    inner join pgq.queue as q on q.queue_id = l.queue_id;
end
$$;

comment on function pgq._clean_jobs(timestamptz) is
'The part of cleanup that removes expired jobs and old dead letters and buries jobs that lost their
workers.';
