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
    token uuid,
    exhausted boolean
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
    candidates bigint[];
    leased pgq._leased_job[];
    part pgq._leased_job[];
    leased_until timestamptz;
    raising boolean;
    first_leaf integer;
    last_leaf integer;
    leaf integer;
begin
    if _claim_jobs.label is not null then
        -- The higher one of the floors of all claims and those of this label.
        select
            coalesce(array_agg(greatest(g.floor_time, o.floor_time) order by o.place), times),
            coalesce(
                array_agg(
                    case
                        when g.floor_time > o.floor_time then g.floor_id
                        when g.floor_time < o.floor_time then o.floor_id
                        else greatest(g.floor_id, o.floor_id)
                    end
                    order by o.place
                ),
                ids
            ),
            coalesce(min(f.recorded_at), '-infinity')
        into times, ids, raised_at
        from (
            select h.floor_times, h.floor_ids, h.recorded_at
            from pgq.queue_floor as h
            where h.queue_id = _claim_jobs.queue_id
                and h.label = '=' || _claim_jobs.label
            order by h.seq desc
            limit 1
        ) as f
        cross join lateral unnest(f.floor_times, f.floor_ids)
            with ordinality as g (floor_time, floor_id, place)
        inner join unnest(times, ids) with ordinality as o (floor_time, floor_id, place)
            on o.place = g.place;
    end if;

    -- One row per priority, the first one first. Those that had all their attempts are passed over.
    -- The limits stop the scan, and so the locking, as soon as there are enough.
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
                    and k.attempt < coalesce(_claim_jobs.max_attempts, 2147483647)
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
                    and k.attempt < coalesce(_claim_jobs.max_attempts, 2147483647)
                order by k.visible_at, k.job_id
                limit _claim_jobs.max_jobs
                for update skip locked
            ) as j
            limit _claim_jobs.max_jobs
        );
    end if;

    if cardinality(candidates) > 0 then
        -- The clock is read behind the locks: by now this transaction has its id, on which the
        -- floor relies.
        leased_until := pgq._clock() + _claim_jobs.lease;

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
                last_attempt,
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
                leased_until,
                g.segment,
                g.attempt + 1,
                g.priority,
                (g.attempt + 1 >= _claim_jobs.max_attempts) is true,
                _claim_jobs.token,
                g.label,
                g.last_error
            from gone as g
        )

        select
            array_agg(
                row(
                    g.job_id,
                    g.attempt + 1,
                    leased_until,
                    g.priority,
                    g.label,
                    g.visible_at,
                    g.segment,
                    g.partition_id,
                    g.log_offset
                )::pgq._leased_job
            ),
            min(g.segment),
            max(g.segment)
        into leased, first_leaf, last_leaf
        from gone as g;
    end if;

    -- Now and then, and less often when there is nothing to do.
    raising := raised_at < _claim_jobs.moment - interval '20 milliseconds'
        and (
            cardinality(leased) > 0
            or raised_at < _claim_jobs.moment - interval '5 seconds'
        )
        or raised_at > _claim_jobs.moment;

    -- Where those that had all their attempts stand before all others, claims would walk them for
    -- ever.
    if (raising or _claim_jobs.exhausted or cardinality(candidates) < _claim_jobs.max_jobs)
        and exists (
            select
            from unnest(_claim_jobs.floor_times, _claim_jobs.floor_ids) with ordinality
                as f (floor_time, floor_id, place)
            cross join lateral (
                select k.attempt
                from pgq.job as k
                where k.queue_id = _claim_jobs.queue_id
                    and k.priority = f.place - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= _claim_jobs.moment
                order by k.visible_at, k.job_id
                limit 1
            ) as j
            where j.attempt >= _claim_jobs.max_attempts
        )
    then
        perform pgq._bury_front(
            _claim_jobs.queue_id,
            _claim_jobs.max_attempts,
            _claim_jobs.floor_times,
            _claim_jobs.floor_ids,
            _claim_jobs.moment,
            999
        );
    end if;

    if raising then
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
    uuid,
    boolean
) is
'What claim_job and finish_and_claim do for many jobs, for other priorities than the first, and for
labels.';
