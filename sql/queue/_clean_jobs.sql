create function pgq._clean_jobs(moment timestamptz)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    report pgq.cleanup_action;
    batch constant integer := 10000;
    ended bigint := 0;
    removed bigint := 0;
    unfinished boolean;
    letters pgq._ended_job[];
begin
    unfinished := pgq._clean_runs(_clean_jobs.moment, batch);

    for report in
        select r.*
        from pgq._expire_jobs(
            pgq._expired_jobs(_clean_jobs.moment, batch), _clean_jobs.moment
        ) as r
    loop
        ended := ended + report.amount;
        return next report;
    end loop;

    for report in
        select r.*
        from pgq._bury_lost(_clean_jobs.moment, batch - ended) as r
    loop
        ended := ended + report.amount;
        return next report;
    end loop;

    return query
    select r.*
    from pgq._sweep_floors(10) as r;

    -- A letter that somebody redrives or purges is left to them.
    with old as materialized (
        select d.job_id
        from pgq.queue as q
        cross join lateral (
            select e.job_id
            from pgq.dead_job as e
            where e.queue_id = q.queue_id
                and e.died_at <= _clean_jobs.moment - q.retention
            order by e.died_at
            limit batch
            for update skip locked
        ) as d
        limit batch
    ),

    deleted as (
        delete from pgq.dead_job as d
        where d.job_id = any(array(select o.job_id from old as o))
        returning
            d.job_id,
            d.queue_id,
            d.unique_key,
            case when d.stops_key then d.ordered_key end as ordered_key
    )

    select array_agg(row(r.job_id, r.queue_id, r.unique_key, r.ordered_key)::pgq._ended_job)
    into letters
    from deleted as r;

    perform pgq._free_keys(array(
        select r
        from unnest(letters) as r
        where r.unique_key is not null
            or r.ordered_key is not null
    ));

    for report in
        select 'dead letters removed', q.queue::text, count(*)
        from unnest(letters) as r
        inner join pgq.queue as q on q.queue_id = r.queue_id
        group by q.queue
    loop
        removed := removed + report.amount;
        return next report;
    end loop;
    unfinished := unfinished or greatest(ended, removed) >= batch;

    -- An enqueue or a claim that was in progress when its queue was dropped. The ids of queues that
    -- have jobs are found one after the other, without a look at all jobs.
    with recursive having_jobs as (
        (select j.queue_id from pgq.job as j order by j.queue_id limit 1)
        union all
        select (
            select j.queue_id
            from pgq.job as j
            where j.queue_id > h.queue_id
            order by j.queue_id
            limit 1
        )
        from having_jobs as h
        where h.queue_id is not null
    )

    delete from pgq.job as j
    where j.job_id = any(array(
        select k.job_id
        from having_jobs as h
        inner join pgq.job as k on k.queue_id = h.queue_id
        where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
        limit batch
    ));
    get diagnostics removed = row_count;
    unfinished := unfinished or removed = batch;

    with recursive having_letters as (
        (select d.queue_id from pgq.dead_job as d order by d.queue_id limit 1)
        union all
        select (
            select d.queue_id
            from pgq.dead_job as d
            where d.queue_id > h.queue_id
            order by d.queue_id
            limit 1
        )
        from having_letters as h
        where h.queue_id is not null
    )

    delete from pgq.dead_job as d
    where d.job_id = any(array(
        select e.job_id
        from having_letters as h
        inner join pgq.dead_job as e on e.queue_id = h.queue_id
        where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
        limit batch
    ));
    get diagnostics removed = row_count;
    unfinished := unfinished or removed = batch;

    with recursive having_keys as (
        (select u.queue_id from pgq.unique_job as u order by u.queue_id limit 1)
        union all
        select (
            select u.queue_id
            from pgq.unique_job as u
            where u.queue_id > h.queue_id
            order by u.queue_id
            limit 1
        )
        from having_keys as h
        where h.queue_id is not null
    )

    delete from pgq.unique_job as u
    where u.job_id = any(array(
        select v.job_id
        from having_keys as h
        inner join pgq.unique_job as v on v.queue_id = h.queue_id
        where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
        limit batch
    ));
    get diagnostics removed = row_count;
    unfinished := unfinished or removed = batch;

    -- A drop above READ COMMITTED did not see the newest floors. From behind: there the newest row
    -- of a queue comes before what older ones have left in the index.
    with recursive having_floors as (
        (select f.queue_id from pgq.queue_floor as f order by f.queue_id desc limit 1)
        union all
        select (
            select f.queue_id
            from pgq.queue_floor as f
            where f.queue_id < h.queue_id
            order by f.queue_id desc
            limit 1
        )
        from having_floors as h
        where h.queue_id is not null
    )

    delete from pgq.queue_floor as f
    where f.queue_id = any(array(
        select h.queue_id
        from having_floors as h
        where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
    ));

    -- The same for those of claims.
    with recursive having_claims as (
        (select c.queue_id from pgq.claim_count as c order by c.queue_id desc limit 1)
        union all
        select (
            select c.queue_id
            from pgq.claim_count as c
            where c.queue_id < h.queue_id
            order by c.queue_id desc
            limit 1
        )
        from having_claims as h
        where h.queue_id is not null
    )

    delete from pgq.claim_count as c
    where c.queue_id = any(array(
        select h.queue_id
        from having_claims as h
        where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
    ));

    unfinished := pgq._clean_order(batch) or unfinished;
    unfinished := pgq._clean_limited_keys(batch) or unfinished;
    if unfinished then
        return next row('more', 'jobs', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._clean_jobs(timestamptz) is
'The part of cleanup that removes expired jobs and old dead letters and buries jobs that lost their
workers.';
