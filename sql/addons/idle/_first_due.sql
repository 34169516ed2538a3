create function pgq._first_due(plan pgq._claim_plan, label text)
returns timestamptz
language plpgsql stable parallel unsafe
as $$
begin
    -- Jobs that expire before they are due are never claimed. In a queue with keys they count: the
    -- claim that meets them unblocks the next ones.
    if label is null then
        return (
            select min(n.visible_at)
            from unnest(plan.floor_times, plan.floor_ids) with ordinality
                as f (floor_time, floor_id, priority)
            cross join lateral (
                select k.visible_at
                from pgq.job as k
                where k.queue_id = plan.queue_id
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and (
                        k.expires_at is null
                        or k.expires_at > greatest(k.visible_at, plan.now_at)
                        or plan.is_ordered
                    )
                order by k.visible_at, k.job_id
                limit 1
            ) as n
        );
    end if;

    return (
        select min(n.visible_at)
        from unnest(plan.floor_times, plan.floor_ids) with ordinality
            as f (floor_time, floor_id, priority)
        cross join lateral (
            select k.visible_at
            from pgq.job as k
            where -k.queue_id = -plan.queue_id
                and k.label = _first_due.label collate "C"
                and k.priority = f.priority - 1
                and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                and (
                    k.expires_at is null
                    or k.expires_at > greatest(k.visible_at, plan.now_at)
                    or plan.is_ordered
                )
            order by k.visible_at, k.job_id
            limit 1
        ) as n
    );
end
$$;

comment on function pgq._first_due(pgq._claim_plan, text) is
'Returns the first time at which a job of a queue, or of one label, is due, from the floors of the
plan on. Infinity: all jobs are blocked by others of their keys.';
