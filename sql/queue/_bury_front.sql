create function pgq._bury_front(plan pgq._claim_plan, label text)
returns void
language plpgsql volatile parallel unsafe
set enable_sort = off
as $$
declare
    looked_at integer;
    spent bigint[];
begin
    -- The first one of each priority; where one of these had all its attempts, as many as a call
    -- may take time for. Else claims would walk them for ever.
    foreach looked_at in array array[1, 999] loop
        if label is null then
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
                        -- One that has expired is passed by until cleanup removes it.
                        and (
                            j.expires_at is null
                            or j.expires_at > plan.moment
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
                    as f (floor_time, floor_id, place)
                cross join lateral (
                    select j.job_id, j.attempt, j.max_attempts
                    from pgq.job as j
                    where -j.queue_id = -plan.queue_id
                        and j.label = _bury_front.label
                        and j.priority = f.place - 1
                        and (j.visible_at, j.job_id) >= (f.floor_time, f.floor_id)
                        and j.visible_at <= plan.moment
                        -- One that has expired is passed by until cleanup removes it.
                        and (
                            j.expires_at is null
                            or j.expires_at > plan.moment
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
    perform pgq._bury_exhausted(spent, plan.max_attempts, plan.moment);
end
$$;

comment on function pgq._bury_front(pgq._claim_plan, text) is
'Makes dead letters of up to 999 jobs that have had all their attempts, where one of these stands
before all others of its priority, and of its label if there is one.';
