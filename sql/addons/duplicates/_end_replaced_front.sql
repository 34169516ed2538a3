create function pgq._end_replaced_front(plan pgq._claim_plan)
returns void
language plpgsql volatile parallel unsafe
set enable_bitmapscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    perform pgq._end_replaced(
        array(
            select j.job_id
            from unnest(plan.common_times, plan.common_ids) with ordinality
                as f (floor_time, floor_id, priority)
            cross join lateral (
                select k.job_id
                from pgq.job as k
                where k.queue_id = plan.queue_id
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= plan.now_at
                order by k.visible_at, k.job_id
                limit 1000
            ) as d
            inner join pgq.job as j on j.job_id = d.job_id
            where j.lease_token is not null
                and j.visible_at <= plan.now_at
                and exists (
                    select
                    from pgq.unique_job as u
                    where u.queue_id = plan.queue_id
                        and u.unique_key = j.unique_key
                        and u.job_id <> j.job_id
                        and u.is_newest
                )
            for update of j skip locked
        ),
        0, null
    );
end
$$;

comment on function pgq._end_replaced_front(pgq._claim_plan) is
'Does the same as _end_replaced for the jobs of lost leases among the first thousand of each
priority, so that a claim does not meet each of them on its own.';
