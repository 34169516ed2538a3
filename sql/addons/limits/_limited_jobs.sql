create function pgq._limited_jobs(plan pgq._claim_plan, label text)
returns pgq._chosen_jobs
language plpgsql volatile parallel unsafe
set enable_hashjoin = on
as $$
declare
    chosen pgq._chosen_jobs;
    judged pgq._judged_jobs;
    kept integer;
    times timestamptz[] := plan.floor_times;
    ids bigint[] := plan.floor_ids;
    wanted integer := plan.wanted;
    piece integer := plan.wanted;
    met pgq._met_job[];
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

        judged := pgq._judge_jobs(plan, label, met, chosen, wanted);
        -- A job that is not taken must not keep others of its key from being taken. Each look may
        -- find others, as jobs end meanwhile.
        loop
            kept := greatest(
                pgq._fit_jobs(judged.chosen, plan.max_bytes), cardinality(chosen.tids)
            );
            exit when (kept < cardinality((judged.chosen).tids)) is not true;
            chosen.cut_short := true;
            judged := pgq._judge_jobs(
                plan, label, met, chosen, kept - coalesce(cardinality(chosen.tids), 0)
            );
        end loop;
        chosen := judged.chosen;
        wanted := plan.wanted - coalesce(kept, 0);

        if judged.blocked is not null then
            perform pgq._block_jobs(plan.queue_id, judged.blocked, judged.blocked_keys);
        end if;
        if judged.changes is not null then
            perform pgq._write_keys(judged.changes, false);
        end if;
        exit when chosen.cut_short or wanted = 0 or cardinality(met) < piece;

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
