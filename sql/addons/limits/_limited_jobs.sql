create function pgq._limited_jobs(plan pgq._claim_plan, label text)
returns pgq._chosen_jobs
language plpgsql volatile parallel unsafe
set enable_hashjoin = on
as $$
declare
    chosen pgq._chosen_jobs;
    times timestamptz[] := plan.floor_times;
    ids bigint[] := plan.floor_ids;
    wanted integer := plan.wanted;
    piece integer := plan.wanted;
    met pgq._met_job[];
    blocked bigint[];
    blocked_keys text[];
    changes pgq.limited_key[];
    stood record;
begin
    chosen.stamps := '{}';
    loop
        if plan.is_subscribed and label is null then
            perform pgq._expand_extents(
                plan.queue_id, piece, plan.now_at, plan.max_attempts, times[1], ids[1]
            );
        end if;

        met := pgq._met_jobs(
            plan.queue_id, piece, label, plan.max_attempts, plan.now_at, times, ids
        );
        exit when met is null;

        with ranked as (
            select
                k.*,
                k.limited_key is null
                or count(*) filter (where k.leased) over (partition by k.limited_key)
                + row_number() over (
                    partition by k.limited_key, k.leased or not k.fits
                    order by k.priority, not k.has_slot, k.visible_at, k.job_id
                ) <= plan.max_leased_per_key as free
            from pgq._known_jobs(plan, label, met, chosen.stamps) as k
        ),

        -- In claim order, until `wanted` jobs are taken.
        judged as (
            select
                r.*, r.free and r.ordinal is not null and r.earlier < wanted as taken,
                not r.free and r.ordinal is not null and r.earlier < wanted as blocked
            from (
                select
                    d.*,
                    count(*) filter (where d.free and d.ordinal is not null) over (
                        order by d.ordinal
                        rows between unbounded preceding and 1 preceding
                    ) as earlier
                from ranked as d
            ) as r
        ),

        changed as (
            select
                row(
                    plan.queue_id, j.limited_key, null,
                    coalesce(
                        array_agg(j.job_id order by j.job_id) filter (
                            where j.taken or (j.has_slot and not j.blocked)
                        ),
                        '{}'
                    ),
                    min(
                        pgq._blocked_position(j.limited_key, j.priority, j.visible_at, j.job_id)
                    ) filter (where j.blocked)
                )::pgq.limited_key as change
            from judged as j
            where j.limited_key is not null
            group by j.limited_key
            having bool_or(j.taken or j.blocked)
        )

        select
            chosen.tids
            || array_agg((met[j.ordinal]).tid order by j.ordinal) filter (where j.taken),
            chosen.leaves
            || array_agg((met[j.ordinal]).segment order by j.ordinal) filter (where j.taken),
            chosen.job_ids || array_agg(j.job_id order by j.ordinal) filter (where j.taken),
            chosen.unique_ids || array_agg(j.job_id order by j.ordinal) filter (
                where j.taken and (met[j.ordinal]).unique_key is not null
            ),
            chosen.unbegun || array_agg((met[j.ordinal]).tid order by j.ordinal) filter (
                where j.taken and (met[j.ordinal]).last_attempt is null
            ),
            chosen.stamps || coalesce(
                jsonb_object_agg(j.job_id, j.limited_key) filter (
                    where j.taken and j.limited_key is not null
                ),
                '{}'
            ),
            wanted - count(*) filter (where j.taken),
            array_agg(j.job_id order by j.ordinal) filter (where j.blocked),
            array_agg(j.limited_key order by j.ordinal) filter (where j.blocked),
            (select array_agg(c.change) from changed as c)
        into
            chosen.tids,
            chosen.leaves,
            chosen.job_ids,
            chosen.unique_ids,
            chosen.unbegun,
            chosen.stamps,
            wanted,
            blocked,
            blocked_keys,
            changes
        from judged as j;

        if blocked is not null then
            perform pgq._block_jobs(plan.queue_id, blocked, blocked_keys);
        end if;
        if changes is not null then
            perform pgq._write_keys(changes, false);
        end if;
        exit when wanted = 0 or cardinality(met) < piece;

        -- Continue in each priority after the last job that was met.
        for stood in
            select distinct on (t.priority) t.priority, t.visible_at, t.job_id
            from unnest(met) as t
            order by t.priority, t.visible_at desc, t.job_id desc
        loop
            times[stood.priority + 1] := stood.visible_at;
            ids[stood.priority + 1] := stood.job_id + 1;
        end loop;
        piece := least(greatest(piece * 4, 100), greatest(wanted, 1000));
    end loop;

    return chosen;
end
$$;

comment on function pgq._limited_jobs(pgq._claim_plan, text) is
'Chooses the jobs that a claim takes from a queue with max_leased_per_key; the caller holds its
claim_lock. Due jobs whose key is at the limit are blocked on the way.';
