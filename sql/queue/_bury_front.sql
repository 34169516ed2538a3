create function pgq._bury_front(plan pgq._claim_plan, label text, max_jobs integer)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    spent bigint[];
begin
    if _bury_front.label is null then
        spent := array(
            select k.job_id
            from unnest(plan.floor_times, plan.floor_ids) with ordinality
                as f (floor_time, floor_id, place)
            cross join lateral (
                select j.job_id, j.attempt, j.max_attempts
                from pgq.job as j
                where j.queue_id = plan.queue_id
                    and j.priority = f.place - 1
                    and (j.visible_at, j.job_id) >= (f.floor_time, f.floor_id)
                    and j.visible_at <= plan.moment
                order by j.visible_at, j.job_id
                limit 1000
            ) as k
            where k.attempt >= coalesce(k.max_attempts, plan.max_attempts)
            limit _bury_front.max_jobs
        );
    else
        spent := array(
            select k.job_id
            from unnest(plan.floor_times, plan.floor_ids) with ordinality
                as f (floor_time, floor_id, place)
            cross join lateral (
                select j.job_id, j.attempt, j.max_attempts
                from pgq.job as j
                where -j.queue_id = -plan.queue_id
                    and j.label = _bury_front.label
                    and j.priority = f.place - 1
                    and (j.visible_at, j.job_id) >= (f.floor_time, f.floor_id)
                    and j.visible_at <= plan.moment
                order by j.visible_at, j.job_id
                limit 1000
            ) as k
            where k.attempt >= coalesce(k.max_attempts, plan.max_attempts)
            limit _bury_front.max_jobs
        );
    end if;
    return pgq._bury_exhausted(spent, plan.max_attempts, plan.moment);
end
$$;

comment on function pgq._bury_front(pgq._claim_plan, text, integer) is
'Makes dead letters of up to so many jobs that have had all their attempts, and returns how many: of
each priority, of those among the 1000 that a claim would meet first.';
