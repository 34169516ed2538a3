create function pgq._choose_jobs(plan pgq._claim_plan, label text)
returns pgq._chosen_jobs
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    chosen pgq._chosen_jobs;
    spent bigint[];
begin
    if plan.max_leased_per_key is not null then
        chosen := pgq._limited_jobs(plan, _choose_jobs.label);
        if (cardinality(chosen.places) >= plan.wanted) is not true then
            perform pgq._bury_front(plan, _choose_jobs.label, 999);
        end if;
        return chosen;
    end if;

    -- Jobs that have had all their attempts die here. Many may stand in front after max_attempts
    -- was lowered: a claim buries some 10,000 at most.
    for pass in 1..10 loop
        -- One row for each priority, the first one first. The limits stop the scan, and so the
        -- locking, as soon as there are enough.
        if _choose_jobs.label is null then
            select
                array_agg(c.place) filter (where not c.spent),
                array_agg(c.segment) filter (where not c.spent),
                array_agg(c.job_id) filter (where c.unique_key is not null and not c.spent),
                array_agg(c.job_id) filter (where plan.is_limited and not c.spent),
                array_agg(c.job_id) filter (where c.spent)
            into chosen.places, chosen.leaves, chosen.unique_ids, chosen.job_ids, spent
            from (
                select j.*
                from unnest(plan.floor_times, plan.floor_ids) with ordinality
                    as f (floor_time, floor_id, priority)
                cross join lateral (
                    select
                        k.ctid as place,
                        k.segment,
                        k.job_id,
                        k.unique_key,
                        k.attempt >= coalesce(k.max_attempts, plan.max_attempts) as spent
                    from pgq.job as k
                    where k.queue_id = plan.queue_id
                        and k.priority = f.priority - 1
                        and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                        and k.visible_at <= plan.moment
                        and (
                            k.expires_at is null
                            or k.expires_at > plan.moment
                            or k.attempt >= coalesce(k.max_attempts, plan.max_attempts)
                        )
                    order by k.visible_at, k.job_id
                    limit plan.wanted
                    for update skip locked
                ) as j
                limit plan.wanted
            ) as c;
        else
            -- By the index on the label; no other index knows the negative id.
            select
                array_agg(c.place) filter (where not c.spent),
                array_agg(c.segment) filter (where not c.spent),
                array_agg(c.job_id) filter (where c.unique_key is not null and not c.spent),
                array_agg(c.job_id) filter (where plan.is_limited and not c.spent),
                array_agg(c.job_id) filter (where c.spent)
            into chosen.places, chosen.leaves, chosen.unique_ids, chosen.job_ids, spent
            from (
                select j.*
                from unnest(plan.floor_times, plan.floor_ids) with ordinality
                    as f (floor_time, floor_id, priority)
                cross join lateral (
                    select
                        k.ctid as place,
                        k.segment,
                        k.job_id,
                        k.unique_key,
                        k.attempt >= coalesce(k.max_attempts, plan.max_attempts) as spent
                    from pgq.job as k
                    where -k.queue_id = -plan.queue_id
                        and k.label = _choose_jobs.label
                        and k.priority = f.priority - 1
                        and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                        and k.visible_at <= plan.moment
                        and (
                            k.expires_at is null
                            or k.expires_at > plan.moment
                            or k.attempt >= coalesce(k.max_attempts, plan.max_attempts)
                        )
                    order by k.visible_at, k.job_id
                    limit plan.wanted
                    for update skip locked
                ) as j
                limit plan.wanted
            ) as c;
        end if;

        exit when spent is null;
        perform pgq._bury(spent, 0, null, null);
        perform pgq._bury_front(plan, _choose_jobs.label, 999);
    end loop;
    return chosen;
end
$$;

comment on function pgq._choose_jobs(pgq._claim_plan, text) is
'Locks the jobs that a claim leases: those of a lower priority number first, then what is due
longest. What has had all its attempts becomes a dead letter.';
