create function pgq._queue_samples(now_at timestamptz)
returns setof pgq._sample
language plpgsql stable parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    -- The queues that the caller may see.
    queue_ids bigint[];
    queue_names text[];
    paused boolean[];
begin
    select array_agg(q.queue_id), array_agg(q.queue), array_agg(q.paused)
    into queue_ids, queue_names, paused
    from pgq.queue as q
    where not q.restricted or q.queue_id in (select unnest(pgq._visible('queue', 'monitor')));

    return query
    with finished as materialized (
        select j.queue_id, sum(j.finished) as finished
        from pgq._finished_lately(now_at) as j
        group by j.queue_id
    ),

    queues as materialized (
        select
            q.queue, q.paused, j.*, n.finished, d.floor_time,
            least(
                d.oldest,
                (
                    select r.visible_at
                    from pgq.job_extent as r
                    where r.queue_id = q.queue_id and r.visible_at <= now_at
                    order by r.visible_at
                    limit 1
                )
            ) as oldest,
            (
                select l.died_at
                from pgq.dead_job as l
                where l.queue_id = q.queue_id
                order by l.died_at, l.job_id
                limit 1
            ) as died_at
        from unnest(queue_ids, queue_names, paused) as q (queue_id, queue, paused)
        inner join pgq._job_counts(queue_ids, now_at) as j on j.queue_id = q.queue_id
        left join finished as n on n.queue_id = q.queue_id
        -- Skip expired jobs, but look at no more than 100 jobs of each priority.
        cross join lateral (
            select
                min(o.visible_at) as oldest,
                min(f.floor_time) filter (where f.floor_time > '-infinity') as floor_time
            from pgq._queue_floors(q.queue_id) as f
            left join lateral (
                select j.visible_at, j.expires_at
                from pgq.job as j
                where j.queue_id = q.queue_id
                    and j.priority = f.priority
                    and j.visible_at >= f.floor_time
                    and j.visible_at <= now_at
                order by j.visible_at, j.job_id
                limit 100
            ) as o on o.expires_at is null or o.expires_at > now_at
        ) as d
    )

    select 'pgq_queue_jobs', jsonb_build_object('queue', q.queue, 'state', s.state), round(s.jobs)
    from queues as q
    cross join lateral (
        values
        ('ready', q.ready),
        ('leased', q.leased),
        ('delayed', q.delayed),
        ('waiting', q.waiting),
        ('expired', q.expired)
    ) as s (state, jobs)
    union all
    select s.name, jsonb_build_object('queue', q.queue), s.value
    from queues as q
    cross join lateral (
        values
        ('pgq_queue_jobs_estimated', q.estimated::integer),
        ('pgq_queue_retrying_jobs', round(q.retrying)),
        ('pgq_queue_oldest_ready_seconds', coalesce(extract(epoch from now_at - q.oldest), 0)),
        ('pgq_queue_dead_letters', round(q.dead)),
        (
            'pgq_queue_oldest_dead_letter_seconds',
            greatest(extract(epoch from now_at - q.died_at), 0)
        ),
        ('pgq_queue_finished_last_minute', round(coalesce(q.finished, 0))),
        ('pgq_queue_paused', q.paused::integer),
        (
            'pgq_queue_floor_lag_seconds',
            greatest(extract(epoch from coalesce(q.oldest, now_at) - q.floor_time), 0)
        )
    ) as s (name, value);
end
$$;

comment on function pgq._queue_samples(timestamptz) is
'Samples of queues.';
