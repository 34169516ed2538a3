create function pgq._claim_jobs(
    queue text,
    max_jobs integer,
    least_jobs integer,
    lease interval,
    label text,
    exhausted boolean
)
returns setof pgq.claimed_job
language plpgsql
volatile
parallel unsafe
set enable_bitmapscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    wanted integer := _claim_jobs.max_jobs;
    target_id bigint;
    keep interval;
    most_attempts integer;
    paused boolean;
    limited boolean;
    most_per_key integer;
    chosen pgq._chosen_jobs;
    stamps jsonb;
    subscribed boolean;
    common_times timestamptz[];
    common_ids bigint[];
    times timestamptz[];
    ids bigint[];
    common_raised_at timestamptz;
    raised_at timestamptz;
    era bigint;
    token uuid := gen_random_uuid();
    moment timestamptz := pgq._clock();
    keep_until timestamptz;
    places tid[];
    leaves integer[];
    keyed bigint[];
    taken_ids bigint[];
    first integer := 1;
    last integer;
    leaf integer;
    raising boolean;
    ordered boolean;
    noted_from timestamptz;
begin
    perform pgq._check_count('max_jobs', wanted, _claim_jobs.least_jobs, 100000);
    perform pgq._check_label(_claim_jobs.label);

    select
        q.queue_id,
        coalesce(_claim_jobs.lease, q.lease),
        coalesce(q.max_attempts, 2147483647),
        q.paused,
        q.ordered,
        f.note_floor,
        q.max_leased is not null or q.rate_limit is not null,
        q.max_leased_per_key,
        q.subscribed,
        f.floor_times,
        f.floor_ids,
        f.recorded_at,
        f.epoch
    into target_id, keep, most_attempts, paused, ordered, noted_from, limited, most_per_key,
        subscribed, common_times, common_ids, common_raised_at, era
    from pgq.queue as q
    cross join lateral (
        select g.floor_times, g.floor_ids, g.recorded_at, g.epoch, g.note_floor
        from pgq.queue_floor as g
        where g.queue_id = q.queue_id
            and g.label = ''
        order by g.seq desc
        limit 1
    ) as f
    where q.queue = _claim_jobs.queue
        and (q.consumers is null or pgq._may(q.consumers));

    if target_id is null
        or paused
        or wanted = 0
        or ordered
        or limited
        or subscribed
        or most_per_key is not null
        or current_setting('transaction_isolation') <> 'read committed'
    then
        if target_id is null then
            perform pgq._check_access(null, _claim_jobs.queue, 'consume');
            perform pgq._fail_unknown_queue(_claim_jobs.queue);
        end if;
        if paused or wanted = 0 then
            return;
        end if;
        if subscribed and _claim_jobs.label is null then
            -- Before anything is locked that others may wait for. What comes of it is due now.
            perform pgq._deliver_staged(
                target_id,
                moment,
                most_attempts,
                case when common_raised_at <= moment then common_times end,
                common_ids
            );
            moment := pgq._clock();
        end if;
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            -- An old snapshot may name a limit of attempts that was lowered since, and cleanup has
            -- marked what had as many; then 40001.
            perform pgq._unchanged(target_id);
        end if;
        if common_raised_at < moment - interval '5 seconds'
            and pg_stat_get_dead_tuples('pgq.ordered_note'::regclass) < 3000
        then
            noted_from := '-infinity';
        end if;
        if limited or most_per_key is not null then
            wanted := pgq._allowed_claims(target_id, wanted);
            if wanted = 0 then
                return;
            end if;
        end if;
        if ordered then
            -- What comes up now is due now.
            perform pgq._settle_notes(
                target_id,
                case when common_raised_at > moment then '-infinity' else noted_from end,
                moment,
                wanted
            );
            moment := pgq._clock();
        end if;
        if most_per_key is not null then
            most_per_key := pgq._open_keys(
                target_id, case when common_raised_at <= moment then noted_from end, wanted
            );
            moment := pgq._clock();
        end if;
    end if;

    if common_raised_at > moment and common_raised_at > pgq._clock() then
        -- The clock was set back, and whoever could start the floors again may be busy.
        common_times := array_fill('-infinity'::timestamptz, array[10]);
        common_ids := array_fill(0::bigint, array[10]);
        era := null;
    end if;

    if subscribed and _claim_jobs.label is null and most_per_key is null then
        perform pgq._expand_runs(
            target_id, wanted, moment, most_attempts, common_times[1], common_ids[1]
        );
    end if;

    times := common_times;
    ids := common_ids;
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
            min(f.recorded_at)
        into times, ids, raised_at
        from (
            select h.floor_times, h.floor_ids, h.recorded_at, h.epoch
            from pgq.queue_floor as h
            where h.queue_id = target_id
                and h.label = '=' || _claim_jobs.label
            order by h.seq desc
            limit 1
        ) as f
        cross join lateral unnest(f.floor_times, f.floor_ids)
            with ordinality as g (floor_time, floor_id, place)
        inner join unnest(times, ids) with ordinality as o (floor_time, floor_id, place)
            on o.place = g.place
        where f.epoch = era;
    end if;

    -- One row per priority, the first one first. Those that had all their attempts are passed over.
    -- The limits stop the scan, and so the locking, as soon as there are enough.
    if most_per_key is not null then
        chosen := pgq._limited_jobs(
            target_id, most_per_key, wanted, _claim_jobs.label, most_attempts, moment, times, ids,
            subscribed
        );
        places := chosen.places;
        leaves := chosen.leaves;
        stamps := chosen.stamps;
        keyed := chosen.unique_ids;
        taken_ids := case when limited then chosen.job_ids end;
    elsif _claim_jobs.label is null then
        select
            array_agg(c.place),
            array_agg(c.segment),
            array_agg(c.job_id) filter (where c.unique_key is not null),
            array_agg(c.job_id) filter (where limited)
        into places, leaves, keyed, taken_ids
        from (
            select j.place, j.segment, j.job_id, j.unique_key
            from unnest(times, ids) with ordinality as f (floor_time, floor_id, priority)
            cross join lateral (
                select k.ctid as place, k.segment, k.job_id, k.unique_key
                from pgq.job as k
                where k.queue_id = target_id
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= moment
                    and (k.expires_at is null or k.expires_at > moment)
                    and k.attempt < coalesce(k.max_attempts, most_attempts)
                order by k.visible_at, k.job_id
                limit wanted
                for update skip locked
            ) as j
            limit wanted
        ) as c;
    else
        -- The same by the index on the label; no other index knows the negative id.
        select
            array_agg(c.place),
            array_agg(c.segment),
            array_agg(c.job_id) filter (where c.unique_key is not null),
            array_agg(c.job_id) filter (where limited)
        into places, leaves, keyed, taken_ids
        from (
            select j.place, j.segment, j.job_id, j.unique_key
            from unnest(times, ids) with ordinality as f (floor_time, floor_id, priority)
            cross join lateral (
                select k.ctid as place, k.segment, k.job_id, k.unique_key
                from pgq.job as k
                where -k.queue_id = -target_id
                    and k.label = _claim_jobs.label
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= moment
                    and (k.expires_at is null or k.expires_at > moment)
                    and k.attempt < coalesce(k.max_attempts, most_attempts)
                order by k.visible_at, k.job_id
                limit wanted
                for update skip locked
            ) as j
            limit wanted
        ) as c;
    end if;

    -- Now and then, and less often when there is nothing to do. A label may have no floors of its
    -- own: it gets them when it has jobs.
    raising := coalesce(raised_at, common_raised_at) < moment - case
        when places is null then interval '5 seconds' else interval '20 milliseconds'
    end or common_raised_at > moment;

    -- Where those that had all their attempts stand first, claims would walk them for ever.
    if (raising or _claim_jobs.exhausted or cardinality(places) < wanted or places is null)
        and exists (
            select
            from unnest(common_times, common_ids) with ordinality
                as f (floor_time, floor_id, priority)
            cross join lateral (
                select k.attempt, k.max_attempts
                from pgq.job as k
                where k.queue_id = target_id
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= moment
                    -- One that has expired is passed by until cleanup removes it.
                    and (
                        k.expires_at is null
                        or k.expires_at > moment
                        or k.attempt >= coalesce(k.max_attempts, most_attempts)
                    )
                order by k.visible_at, k.job_id
                limit 1
            ) as j
            where j.attempt >= coalesce(j.max_attempts, most_attempts)
        )
    then
        perform pgq._bury_front(target_id, most_attempts, common_times, common_ids, moment, 999);
    end if;
    if (ordered or most_per_key is not null)
        and (raising or cardinality(places) < wanted or places is null)
    then
        perform pgq._expire_front(target_id, common_times, common_ids, moment);
    end if;

    -- What stands in one segment, in a piece: usually all. Nobody moves the rows: they are locked.
    -- The clock is read behind the locks: by now there is an id, on which the floor relies.
    keep_until := pgq._clock() + keep;
    while first <= cardinality(places) loop
        leaf := leaves[first];
        last := cardinality(places);
        if leaf <> any(leaves) then
            last := first;
            while leaves[last + 1] = leaf loop
                last := last + 1;
            end loop;
        end if;

        -- for the first 16 leaves: leaf
        return query
        with gone as (
            delete from pgq.job as j
            where j.ctid = any({places[first:last]})
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
                last_error,
                unique_key,
                max_attempts,
                ordered_key
            )
            select
                g.job_id,
                g.queue_id,
                g.partition_id,
                g.log_offset,
                g.expires_at,
                {keep_until},
                g.segment,
                g.attempt + 1,
                g.priority,
                g.attempt + 1 >= coalesce(g.max_attempts, {most_attempts}),
                {token},
                g.label,
                g.last_error,
                g.unique_key,
                g.max_attempts,
                case when {stamps} is null then g.ordered_key else {stamps} ->> g.job_id::text end
            from gone as g
        )

        select
            g.job_id,
            {token},
            g.attempt + 1,
            {keep_until},
            m.published_at,
            g.priority::integer,
            m.key,
            g.label,
            m.headers,
            m.payload,
            m.body
        from gone as g
        left join pgq.message_{leaf} as m
            on m.partition_id = g.partition_id
            and m.log_offset = g.log_offset
        order by g.priority, g.visible_at, g.job_id;
        -- end of the leaf

        first := last + 1;
    end loop;

    if raising or keyed is not null or taken_ids is not null then
        if taken_ids is not null then
            perform pgq._note_claims(target_id, taken_ids);
        end if;
        if keyed is not null then
            perform pgq._free_claimed(keyed);
        end if;
        if not raising then
            return;
        elsif _claim_jobs.label is null or (raised_at is null and places is null) then
            perform pgq._raise_floor(target_id, moment);
        else
            perform pgq._raise_label_floor(target_id, _claim_jobs.label, moment);
        end if;
        if places is null and pgq._look_below(target_id, moment) then
            return query select c.* from pgq._claim_jobs($1, $2, $3, $4, $5, $6) as c;
        end if;
    end if;
end
$$;

comment on function pgq._claim_jobs(text, integer, integer, interval, text, boolean) is
'What claim_job and finish_and_claim do for many jobs, for other priorities than the first, and for
labels.';
