create function pgq.claim_job(
    queue text,
    max_jobs integer default 1,
    lease interval default null,
    label text default null
)
returns setof pgq.claimed_job
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    target_id bigint;
    store_id bigint;
    queue_lease interval;
    max_attempts integer;
    paused boolean;
    floor_times timestamptz[];
    floor_ids bigint[];
    recorded_at timestamptz;
    moment timestamptz;
    token uuid;
    leased pgq._leased_job[];
    lone pgq._leased_job;
    top_attempt integer;
    first_leaf integer;
    last_leaf integer;
begin
    if (claim_job.max_jobs between 1 and 100000) is not true then
        perform pgq._check_count('max_jobs', claim_job.max_jobs, 1, 100000);
    end if;
    if claim_job.lease is not null then
        perform pgq._check_interval('lease', claim_job.lease, false);
    end if;

    select
        q.queue_id,
        q.partition_id,
        q.lease,
        q.max_attempts,
        q.paused,
        f.floor_times,
        f.floor_ids,
        f.recorded_at
    into
        target_id,
        store_id,
        queue_lease,
        max_attempts,
        paused,
        floor_times,
        floor_ids,
        recorded_at
    from pgq.queue as q
    cross join lateral (
        select g.floor_times, g.floor_ids, g.recorded_at
        from pgq.queue_floor as g
        where g.queue_id = q.queue_id
        order by g.seq desc
        limit 1
    ) as f
    where q.queue = claim_job.queue;

    if target_id is null then
        perform pgq._fail_unknown_queue(claim_job.queue);
    end if;
    if paused then
        return;
    end if;

    token := gen_random_uuid();
    moment := pgq._clock();

    if claim_job.max_jobs = 1 and claim_job.label is null then
        -- What follows below for many, without arrays: for one job that takes less time.
        with picked as materialized (
            select j.job_id, j.visible_at
            from unnest(floor_times, floor_ids) with ordinality
                as f (floor_time, floor_id, place)
            cross join lateral (
                select k.job_id, k.visible_at
                from pgq.job as k
                where k.queue_id = target_id
                    and k.priority = f.place - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= moment
                    and (k.expires_at is null or k.expires_at > moment)
                order by k.visible_at, k.job_id
                limit 1
                for update skip locked
            ) as j
            limit 1
        )

        update pgq.job as j
        set
            attempt = j.attempt + 1,
            visible_at = pgq._clock() + coalesce(claim_job.lease, queue_lease),
            lease_token = token
        from picked as p
        where j.job_id = p.job_id
        returning
            j.job_id, j.attempt, j.visible_at, j.priority, j.label, p.visible_at, j.segment
        into lone;

        if lone.attempt <= max_attempts or max_attempts is null and lone.attempt is not null then
            if recorded_at not between moment - interval '20 milliseconds' and moment then
                perform pgq._raise_floor(target_id, moment);
            end if;

            return query
            select
                lone.job_id,
                token,
                lone.attempt,
                lone.leased_until,
                m.published_at,
                lone.priority::integer,
                m.key,
                lone.label,
                m.headers,
                m.payload,
                m.body
            from pgq.message as m
            where m.segment = lone.segment
                and m.partition_id = store_id
                and m.log_offset = lone.job_id;
            return;
        end if;

        if lone.attempt > max_attempts then
            perform pgq._bury(
                array[lone.job_id], max_attempts, 'the lease of the last attempt ran out'
            );
        end if;
    end if;

    loop
        exit when lone.job_id is null and claim_job.max_jobs = 1 and claim_job.label is null;

        -- One row per priority, the first one first. The limits stop the scan, and so the locking,
        -- as soon as there are enough. visible_at is set by a clock that is read behind the lock:
        -- by then this transaction has its id, on which the floor relies.
        if claim_job.label is null then
            with picked as materialized (
                select j.job_id, j.visible_at
                from unnest(floor_times, floor_ids) with ordinality
                    as f (floor_time, floor_id, place)
                cross join lateral (
                    select k.job_id, k.visible_at
                    from pgq.job as k
                    where k.queue_id = target_id
                        and k.priority = f.place - 1
                        and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                        and k.visible_at <= moment
                        and (k.expires_at is null or k.expires_at > moment)
                    order by k.visible_at, k.job_id
                    limit claim_job.max_jobs
                    for update skip locked
                ) as j
                limit claim_job.max_jobs
            ),

            taken as (
                update pgq.job as j
                set
                    attempt = j.attempt + 1,
                    visible_at = pgq._clock() + coalesce(claim_job.lease, queue_lease),
                    lease_token = token
                from picked as p
                where j.job_id = p.job_id
                returning
                    j.job_id,
                    j.attempt,
                    j.visible_at as leased_until,
                    j.priority,
                    j.label,
                    p.visible_at as due_at,
                    j.segment
            )

            select
                array_agg(row(t.*)::pgq._leased_job),
                max(t.attempt),
                min(t.segment),
                max(t.segment)
            into leased, top_attempt, first_leaf, last_leaf
            from taken as t;
        else
            -- The same by the index on the label; no other index knows the negative id.
            with picked as materialized (
                select j.job_id, j.visible_at
                from unnest(floor_times, floor_ids) with ordinality
                    as f (floor_time, floor_id, place)
                cross join lateral (
                    select k.job_id, k.visible_at
                    from pgq.job as k
                    where -k.queue_id = -target_id
                        and k.priority = f.place - 1
                        and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                        and k.visible_at <= moment
                        and (k.expires_at is null or k.expires_at > moment)
                        and k.label = claim_job.label
                    order by k.visible_at, k.job_id
                    limit claim_job.max_jobs
                    for update skip locked
                ) as j
                limit claim_job.max_jobs
            ),

            taken as (
                update pgq.job as j
                set
                    attempt = j.attempt + 1,
                    visible_at = pgq._clock() + coalesce(claim_job.lease, queue_lease),
                    lease_token = token
                from picked as p
                where j.job_id = p.job_id
                returning
                    j.job_id,
                    j.attempt,
                    j.visible_at as leased_until,
                    j.priority,
                    j.label,
                    p.visible_at as due_at,
                    j.segment
            )

            select
                array_agg(row(t.*)::pgq._leased_job),
                max(t.attempt),
                min(t.segment),
                max(t.segment)
            into leased, top_attempt, first_leaf, last_leaf
            from taken as t;
        end if;

        exit when leased is null or max_attempts is null or top_attempt <= max_attempts;

        -- Jobs whose last worker was lost: they have had their attempts.
        perform pgq._bury(
            array(select l.job_id from unnest(leased) as l where l.attempt > max_attempts),
            max_attempts,
            'the lease of the last attempt ran out'
        );
        leased := array(select l from unnest(leased) as l where l.attempt <= max_attempts);
        exit when cardinality(leased) > 0;
    end loop;

    -- Now and then, and less often when there is nothing to do.
    if recorded_at < moment - interval '20 milliseconds'
        and (leased is not null or recorded_at < moment - interval '5 seconds')
        or recorded_at > moment
    then
        perform pgq._raise_floor(target_id, moment);
    end if;

    if leased is null then
        return;
    end if;

    -- Usually the payloads stand in one segment, and a plain parameter leads to it at once.
    if first_leaf = last_leaf then
        return query
        select
            l.job_id,
            token,
            l.attempt,
            l.leased_until,
            m.published_at,
            l.priority::integer,
            m.key,
            l.label,
            m.headers,
            m.payload,
            m.body
        from unnest(leased) as l
        left join lateral (
            select n.*
            from pgq.message as n
            where n.segment = first_leaf
                and n.partition_id = store_id
                and n.log_offset = l.job_id
            limit 1
        ) as m on true
        order by l.priority, l.due_at, l.job_id;
    else
        return query
        select
            l.job_id,
            token,
            l.attempt,
            l.leased_until,
            m.published_at,
            l.priority::integer,
            m.key,
            l.label,
            m.headers,
            m.payload,
            m.body
        from unnest(leased) as l
        left join lateral (
            select n.*
            from pgq.message as n
            where n.segment = l.segment
                and n.partition_id = store_id
                and n.log_offset = l.job_id
            limit 1
        ) as m on true
        order by l.priority, l.due_at, l.job_id;
    end if;
end
$$;

comment on function pgq.claim_job(text, integer, interval, text) is
'Leases up to max_jobs (1 to 100000) jobs of a queue to the caller and returns them.
A worker that finishes calls ack (or archive_job), one that fails calls nack, with the lease
token; if it does neither before leased_until, the job goes to the next claim, with the next
attempt number. Lower priority numbers come first, then what is due longest. One call gives all
its jobs one token. Concurrent claims get different jobs and do not wait for each other. A claim
in a transaction that is rolled back, or whose client dies before commit, has not happened. lease:
how long the caller has the jobs, by the clock, not from the begin of the transaction; by default
what the queue says. label: only jobs with exactly this label. No row: nothing is due, or the
queue is paused.
Errors: MQ002 unknown queue, 22004 and 22023 bad arguments.';
