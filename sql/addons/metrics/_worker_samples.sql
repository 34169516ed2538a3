create function pgq._worker_samples(now_at timestamptz)
returns setof pgq._sample
language plpgsql stable parallel unsafe
as $$
declare
    -- A role can send heartbeats under any number of names, each a new time series: limit them.
    most constant integer := 100;
begin
    return query
    with workers as materialized (
        select
            w.*, greatest(extract(epoch from now_at - w.last_seen_at), 0) as silent,
            row_number() over (
                partition by w.role
                order by w.last_seen_at desc, w.worker
            ) as position
        from pgq.worker as w
    )

    select
        s.name,
        jsonb_build_object(
            'worker', w.worker, 'kind', w.kind, 'host', coalesce(w.host, ''), 'role', w.role
        ),
        s.value
    from workers as w
    cross join lateral (
        values
        ('pgq_worker_last_seen_seconds', w.silent::double precision),
        ('pgq_worker_running', w.running)
    ) as s (name, value)
    where w.position <= most
    union all
    select s.name, jsonb_build_object('role', w.role) || s.labels, s.value
    from (
        select
            w.role, count(*) as workers,
            count(*) filter (
                where w.silent > 60 + extract(epoch from coalesce(w.beat, '0'))
            ) as silent
        from workers as w
        group by w.role
    ) as w
    cross join lateral (
        values
        ('pgq_workers', '{"state": "seen"}'::jsonb, w.workers - w.silent),
        ('pgq_workers', '{"state": "silent"}', w.silent),
        ('pgq_workers_omitted', '{}', greatest(w.workers - most, 0))
    ) as s (name, labels, value);
end
$$;

comment on function pgq._worker_samples(timestamptz) is
'Samples of workers: for each role, those of the 100 workers seen last, and how many it has.';
