create function pgq._judge_jobs(
    plan pgq._claim_plan, label text, met pgq._met_job[], chosen pgq._chosen_jobs, wanted integer
)
returns pgq._judged_jobs
language plpgsql volatile parallel unsafe
as $$
declare
    judged pgq._judged_jobs;
begin
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
    decided as (
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
        from decided as j
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
        chosen.lost_ids || array_agg(j.job_id order by j.ordinal) filter (
            where j.taken and (met[j.ordinal]).was_begun
        ),
        chosen.stamps || coalesce(
            jsonb_object_agg(j.job_id, j.limited_key) filter (
                where j.taken and j.limited_key is not null
            ),
            '{}'
        ),
        array_agg(j.job_id order by j.ordinal) filter (where j.blocked),
        array_agg(j.limited_key order by j.ordinal) filter (where j.blocked),
        (select array_agg(c.change) from changed as c)
    into
        chosen.tids,
        chosen.leaves,
        chosen.job_ids,
        chosen.unique_ids,
        chosen.unbegun,
        chosen.lost_ids,
        chosen.stamps,
        judged.blocked,
        judged.blocked_keys,
        judged.changes
    from decided as j;

    judged.chosen := chosen;
    return judged;
end
$$;

comment on function pgq._judge_jobs(
    pgq._claim_plan, text, pgq._met_job[], pgq._chosen_jobs, integer
) is
'Decides which of the jobs that a claim has met it takes, in addition to those that it has chosen,
and which it blocks. It writes nothing.';
