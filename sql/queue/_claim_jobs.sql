create function pgq._claim_jobs(
    queue_id bigint,
    max_jobs integer,
    lease interval,
    max_attempts integer,
    label text,
    floor_times timestamptz[],
    floor_ids bigint[],
    recorded_at timestamptz,
    moment timestamptz,
    token uuid
)
returns setof pgq.claimed_job
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    times timestamptz[] := _claim_jobs.floor_times;
    ids bigint[] := _claim_jobs.floor_ids;
    raised_at timestamptz := _claim_jobs.recorded_at;
    most_attempts integer;
    candidates bigint[];
    leased pgq._leased_job[];
    part pgq._leased_job[];
    top_attempt integer;
    first_leaf integer;
    last_leaf integer;
    leaf integer;
begin
    if _claim_jobs.label is not null then
        select g.floor_times, g.floor_ids, g.recorded_at
        into times, ids, raised_at
        from pgq.queue_floor as g
        where g.queue_id = _claim_jobs.queue_id
            and g.label = '=' || _claim_jobs.label
        order by g.seq desc
        limit 1;

        if times is null then
            times := array_fill('-infinity'::timestamptz, array[10]);
            ids := array_fill(0::bigint, array[10]);
            raised_at := '-infinity';
        end if;
    end if;

    loop
        -- One row per priority, the first one first. The limits stop the scan, and so the locking,
        -- as soon as there are enough.
        if _claim_jobs.label is null then
            candidates := array(
                select j.job_id
                from unnest(times, ids) with ordinality as f (floor_time, floor_id, place)
                cross join lateral (
                    select k.job_id
                    from pgq.job as k
                    where k.queue_id = _claim_jobs.queue_id
                        and k.priority = f.place - 1
                        and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                        and k.visible_at <= _claim_jobs.moment
                        and (k.expires_at is null or k.expires_at > _claim_jobs.moment)
                        and (most_attempts is null or k.attempt < most_attempts)
                    order by k.visible_at, k.job_id
                    limit _claim_jobs.max_jobs
                    for update skip locked
                ) as j
                limit _claim_jobs.max_jobs
            );
        else
            -- The same by the index on the label; no other index knows the negative id.
            candidates := array(
                select j.job_id
                from unnest(times, ids) with ordinality as f (floor_time, floor_id, place)
                cross join lateral (
                    select k.job_id
                    from pgq.job as k
                    where -k.queue_id = -_claim_jobs.queue_id
                        and k.label = _claim_jobs.label
                        and k.priority = f.place - 1
                        and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                        and k.visible_at <= _claim_jobs.moment
                        and (k.expires_at is null or k.expires_at > _claim_jobs.moment)
                        and (most_attempts is null or k.attempt < most_attempts)
                    order by k.visible_at, k.job_id
                    limit _claim_jobs.max_jobs
                    for update skip locked
                ) as j
                limit _claim_jobs.max_jobs
            );
        end if;
        exit when cardinality(candidates) = 0;

        -- visible_at is set by a clock that is read behind the lock: by then this transaction has
        -- its id, on which the floor relies.
        with gone as (
            delete from pgq.job as j
            where j.job_id = any(candidates)
            returning j.*
        ),

        taken as (
            insert into pgq.job (
                job_id,
                queue_id,
                partition_id,
                log_offset,
                expires_at,
                visible_at,
                segment,
                attempt,
                priority,
                lease_token,
                label,
                last_error
            )
            select
                g.job_id,
                g.queue_id,
                g.partition_id,
                g.log_offset,
                g.expires_at,
                pgq._clock() + _claim_jobs.lease,
                g.segment,
                g.attempt + 1,
                g.priority,
                _claim_jobs.token,
                g.label,
                g.last_error
            from gone as g
            returning job_id, visible_at
        )

        select
            array_agg(
                row(
                    g.job_id,
                    g.attempt + 1,
                    t.visible_at,
                    g.priority,
                    g.label,
                    g.visible_at,
                    g.segment,
                    g.partition_id,
                    g.log_offset
                )::pgq._leased_job
            ),
            max(g.attempt + 1),
            min(g.segment),
            max(g.segment)
        into leased, top_attempt, first_leaf, last_leaf
        from taken as t
        inner join gone as g on g.job_id = t.job_id;

        exit when (top_attempt > _claim_jobs.max_attempts) is not true;

        -- Jobs whose last worker was lost: they have had their attempts. They are passed over from
        -- here on.
        most_attempts := _claim_jobs.max_attempts;
        perform pgq._bury(
            array(select l.job_id from unnest(leased) as l where l.attempt > most_attempts),
            most_attempts,
            'the lease of the last attempt ran out'
        );
        perform pgq._bury_front(
            _claim_jobs.queue_id, most_attempts, times, ids, _claim_jobs.moment
        );
        leased := array(select l from unnest(leased) as l where l.attempt <= most_attempts);
        exit when cardinality(leased) > 0;
    end loop;

    -- Now and then, and less often when there is nothing to do.
    if raised_at < _claim_jobs.moment - interval '20 milliseconds'
        and (
            cardinality(leased) > 0
            or raised_at < _claim_jobs.moment - interval '5 seconds'
        )
        or raised_at > _claim_jobs.moment
    then
        perform pgq._raise_floor(
            _claim_jobs.queue_id, _claim_jobs.label, _claim_jobs.moment
        );
    end if;

    if (cardinality(leased) > 0) is not true then
        return;
    end if;

    -- Usually the payloads stand in one segment; else the jobs are looked up one by one, in order.
    if first_leaf <> last_leaf then
        leased := array(
            select l
            from unnest(leased) as l
            order by l.priority, l.due_at, l.job_id
        );
    end if;
    for number in 1 .. case when first_leaf = last_leaf then 1 else cardinality(leased) end loop
        part := case when first_leaf = last_leaf then leased else leased[number:number] end;
        leaf := (part[1]).segment;

        -- for the leaf: leaf
        return query
        select
            l.job_id,
            {_claim_jobs.token},
            l.attempt,
            l.leased_until,
            m.published_at,
            l.priority::integer,
            m.key,
            l.label,
            m.headers,
            m.payload,
            m.body
        from unnest({part}) as l
        left join pgq.message_{leaf} as m
            on m.partition_id = l.partition_id
            and m.log_offset = l.log_offset
        order by l.priority, l.due_at, l.job_id;
        -- end of the leaf
    end loop;
end
$$;

comment on function pgq._claim_jobs(
    bigint,
    integer,
    interval,
    integer,
    text,
    timestamptz[],
    bigint[],
    timestamptz,
    timestamptz,
    uuid
) is
'What claim_job and finish_and_claim do for many jobs, for other priorities than the first, and for
labels.';
