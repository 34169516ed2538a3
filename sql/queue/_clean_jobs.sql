create function pgq._clean_jobs(objects int8multirange, now_at timestamptz)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    report pgq.cleanup_action;
    batch constant integer := 10000;
    ended bigint := 0;
    removed bigint := 0;
    unfinished boolean;
    legacy_table text;
    dead_letters pgq._ended_job[];
begin
    unfinished := pgq._clean_extents(objects, now_at, batch);

    for report in
        select r.* from pgq._expire_jobs(pgq._expired_jobs(objects, now_at, batch), now_at) as r
    loop
        ended := ended + report.amount;
        return next report;
    end loop;

    for report in select r.* from pgq._dead_letter_lost(objects, now_at, batch - ended) as r loop
        ended := ended + report.amount;
        return next report;
    end loop;

    return query select r.* from pgq._sweep_floors(objects, 10) as r;

    -- SKIP LOCKED: leave a dead letter to the redrive or purge that has locked it.
    with old as materialized (
        select d.job_id
        from pgq.queue as q
        cross join lateral (
            select e.job_id
            from pgq.dead_job as e
            where e.queue_id = q.queue_id and e.died_at <= now_at - q.retention
            order by e.died_at
            limit batch
            for update skip locked
        ) as d
        where q.queue_id <@ objects
        limit batch
    ),

    deleted as (
        delete from pgq.dead_job as d
        where d.job_id = any(array(select o.job_id from old as o))
        returning
            row(
                d.job_id, d.queue_id, d.unique_key, case when d.stops_key then d.ordered_key end
            )::pgq._ended_job as ended
    )

    select array_agg(r.ended)
    into dead_letters
    from deleted as r;

    perform pgq._free_keys(dead_letters);

    for report in
        select 'dead letters removed', q.queue::text, count(*)
        from unnest(dead_letters) as r
        inner join pgq.queue as q on q.queue_id = r.queue_id
        group by q.queue
    loop
        removed := removed + report.amount;
        return next report;
    end loop;
    unfinished := unfinished or greatest(ended, removed) >= batch;

    -- Rows inserted by an enqueue or a claim that was in progress when its queue was dropped.
    foreach legacy_table in array array[
        'job', 'dead_job', 'unique_job', 'queue_floor', 'claim_count'
    ] loop
        unfinished := pgq._clean_dropped_queues(legacy_table, objects, batch) or unfinished;
    end loop;

    delete from pgq.room_count as r
    where r.queue_id <@ objects
        and (
            r.counted_at < clock_timestamp() - interval '1 minute'
            or not exists (select from pgq.queue as q where q.queue_id = r.queue_id)
        );

    -- Floors that a claim with an old snapshot has stored beside later ones.
    delete from pgq.queue_floor as f
    using (
        select g.queue_id, max(g.seq) as seq
        from pgq.queue_floor as g
        where g.queue_id <@ objects and g.label = ''
        group by g.queue_id
    ) as newest
    where f.queue_id = newest.queue_id and f.label = '' and f.seq <= newest.seq - 64;

    unfinished := pgq._clean_order(objects, batch) or unfinished;
    unfinished := pgq._clean_limited_keys(objects, batch) or unfinished;
    if unfinished then
        return next row('more', 'jobs', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._clean_jobs(int8multirange, timestamptz) is
'Removes expired jobs and old dead letters, and dead-letters jobs whose lease ran out on the last
attempt, of these queues. Part of cleanup.';
