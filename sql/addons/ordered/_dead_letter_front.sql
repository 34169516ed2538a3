create function pgq._dead_letter_front(plan pgq._claim_plan, label text)
returns void
language plpgsql volatile parallel unsafe
set enable_sort = off
as $$
declare
    looked_at integer;
    spent bigint[];
begin
    -- Check the first job of each priority; if one has used all its attempts, take up to 999, which
    -- bounds the time of a call. Otherwise every claim would scan past these jobs.
    foreach looked_at in array array[1, 999] loop
        if label is null then
            spent := array(
                select k.job_id
                from unnest(plan.floor_times, plan.floor_ids) with ordinality
                    as f (floor_time, floor_id, ordinal)
                cross join lateral (
                    select j.job_id, j.attempt, j.max_attempts
                    from pgq.job as j
                    where j.queue_id = plan.queue_id
                        and j.priority = f.ordinal - 1
                        and (j.visible_at, j.job_id) >= (f.floor_time, f.floor_id)
                        and j.visible_at <= plan.now_at
                        -- Expired jobs with attempts left are skipped; cleanup removes them.
                        and (
                            j.expires_at is null
                            or j.expires_at > plan.now_at
                            or j.attempt >= coalesce(j.max_attempts, plan.max_attempts)
                        )
                    order by j.visible_at, j.job_id
                    limit looked_at
                ) as k
                where k.attempt >= coalesce(k.max_attempts, plan.max_attempts)
                limit looked_at
            );
        else
            spent := array(
                select k.job_id
                from unnest(plan.floor_times, plan.floor_ids) with ordinality
                    as f (floor_time, floor_id, ordinal)
                cross join lateral (
                    select j.job_id, j.attempt, j.max_attempts
                    from pgq.job as j
                    where -j.queue_id = -plan.queue_id
                        and j.label = _dead_letter_front.label
                        and j.priority = f.ordinal - 1
                        and (j.visible_at, j.job_id) >= (f.floor_time, f.floor_id)
                        and j.visible_at <= plan.now_at
                        -- Expired jobs with attempts left are skipped; cleanup removes them.
                        and (
                            j.expires_at is null
                            or j.expires_at > plan.now_at
                            or j.attempt >= coalesce(j.max_attempts, plan.max_attempts)
                        )
                    order by j.visible_at, j.job_id
                    limit looked_at
                ) as k
                where k.attempt >= coalesce(k.max_attempts, plan.max_attempts)
                limit looked_at
            );
        end if;
        exit when spent = '{}';
    end loop;
    perform pgq._dead_letter_exhausted(spent, plan.max_attempts, plan.now_at);
end
$$;

comment on function pgq._dead_letter_front(pgq._claim_plan, text) is
'Dead-letters up to 999 jobs that have used all their attempts, if one of them is the first due job
of its priority (and of the label, if one is given).';
