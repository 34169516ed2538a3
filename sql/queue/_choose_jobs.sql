create function pgq._choose_jobs(plan pgq._claim_plan, label text, met_spent boolean)
returns pgq._chosen_jobs
language plpgsql volatile parallel unsafe
as $$
declare
    chosen pgq._chosen_jobs;
    found_all boolean;
begin
    -- One floor per priority, in ascending order. Jobs that have used all their attempts are
    -- skipped. The limits stop the index scans, and so the locking, once enough jobs are found.
    if plan.max_leased_per_key is not null then
        chosen := pgq._limited_jobs(plan, label);
    elsif label is null then
        select
            array_agg(c.tid), array_agg(c.segment),
            array_agg(c.job_id) filter (where c.unique_key is not null),
            array_agg(c.job_id) filter (where plan.is_limited),
            array_agg(c.tid) filter (where c.last_attempt is null),
            array_agg(c.job_id) filter (where c.was_begun)
        into
            chosen.tids, chosen.leaves, chosen.unique_ids, chosen.job_ids, chosen.unbegun,
            chosen.lost_ids
        from (
            select j.*
            from unnest(plan.floor_times, plan.floor_ids) with ordinality
                as f (floor_time, floor_id, priority)
            cross join lateral (
                select
                    k.ctid as tid, k.segment, k.job_id, k.unique_key, k.last_attempt,
                    k.lease_token is not null and k.last_attempt is not null as was_begun
                from pgq.job as k
                where k.queue_id = plan.queue_id
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= plan.now_at
                    and (k.expires_at is null or k.expires_at > plan.now_at)
                    and k.attempt < coalesce(k.max_attempts, plan.max_attempts)
                order by k.visible_at, k.job_id
                limit plan.wanted
                for update skip locked
            ) as j
            limit plan.wanted
        ) as c;
    else
        -- Only the index on the label has -queue_id, so the planner must use it.
        select
            array_agg(c.tid), array_agg(c.segment),
            array_agg(c.job_id) filter (where c.unique_key is not null),
            array_agg(c.job_id) filter (where plan.is_limited),
            array_agg(c.tid) filter (where c.last_attempt is null),
            array_agg(c.job_id) filter (where c.was_begun)
        into
            chosen.tids, chosen.leaves, chosen.unique_ids, chosen.job_ids, chosen.unbegun,
            chosen.lost_ids
        from (
            select j.*
            from unnest(plan.floor_times, plan.floor_ids) with ordinality
                as f (floor_time, floor_id, priority)
            cross join lateral (
                select
                    k.ctid as tid, k.segment, k.job_id, k.unique_key, k.last_attempt,
                    k.lease_token is not null and k.last_attempt is not null as was_begun
                from pgq.job as k
                where -k.queue_id = -plan.queue_id
                    and k.label = _choose_jobs.label
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= plan.now_at
                    and (k.expires_at is null or k.expires_at > plan.now_at)
                    and k.attempt < coalesce(k.max_attempts, plan.max_attempts)
                order by k.visible_at, k.job_id
                limit plan.wanted
                for update skip locked
            ) as j
            limit plan.wanted
        ) as c;
    end if;

    if cardinality(chosen.tids) > 1 and plan.max_leased_per_key is null then
        chosen := pgq._cut_jobs(chosen, pgq._fit_jobs(chosen, plan.max_bytes));
    end if;

    -- Raise the floors every 20 ms, or every 5 s when no job was found, and when the clock was set
    -- back. A label without floors of its own gets them when it has jobs.
    chosen.raising := plan.recorded_at > plan.now_at
        or coalesce(plan.label_recorded_at, plan.recorded_at) < plan.now_at - case
            when chosen.tids is null then interval '5 seconds'
            else interval '20 milliseconds'
        end;

    found_all := chosen.cut_short or cardinality(chosen.tids) >= plan.wanted;
    if found_all is not true or chosen.raising or met_spent then
        perform pgq._dead_letter_front(plan, label);
    end if;
    if (plan.is_ordered or plan.max_leased_per_key is not null)
        and (found_all is not true or chosen.raising)
    then
        perform pgq._expire_front(plan.queue_id, plan.common_times, plan.common_ids, plan.now_at);
    end if;
    return chosen;
end
$$;

comment on function pgq._choose_jobs(pgq._claim_plan, text, boolean) is
'Locks the jobs that a claim leases: lower priority numbers first, then those due longest.
If it finds too few, raises the floors, or the caller met a job without attempts left (met_spent),
it also dead-letters some of the jobs that have used all their attempts.';
