create function pgq._plan_claim(queue text, max_jobs integer, lease interval, label text)
returns pgq._claim_plan
language plpgsql volatile parallel unsafe
as $$
declare
    plan pgq._claim_plan;
    wakeups_from timestamptz;
begin
    select
        q.queue_id,
        case when q.paused then 0 else max_jobs end,
        coalesce(_plan_claim.lease, q.lease),
        coalesce(q.max_attempts, 2147483647),
        q.max_leased is not null or q.rate_limit is not null,
        q.max_leased_per_key,
        q.ordered,
        q.subscribed,
        pgq._clock(),
        f.floor_times,
        f.floor_ids,
        f.recorded_at,
        f.epoch,
        f.wakeup_floor,
        q.on_duplicate <> 'keep'
    into
        plan.queue_id,
        plan.wanted,
        plan.lease,
        plan.max_attempts,
        plan.is_limited,
        plan.max_leased_per_key,
        plan.is_ordered,
        plan.is_subscribed,
        plan.now_at,
        plan.floor_times,
        plan.floor_ids,
        plan.recorded_at,
        plan.epoch,
        wakeups_from,
        plan.replaces
    from pgq.queue as q
    cross join lateral pgq._read_floors(q.queue_id, '') as f
    where q.queue = _plan_claim.queue and (q.consumers is null or pgq._may(q.consumers));

    if plan.queue_id is null then
        perform pgq._check_access(null, queue, 'consume');
        perform pgq._fail_unknown_queue(queue);
    end if;
    if plan.wanted = 0 then
        return plan;
    end if;

    if plan.is_subscribed and label is null then
        -- Before any lock: sequencing may wait for an ordered key, and must not hold up other
        -- claims. The jobs that it makes are due now, so the clock is read again.
        perform pgq._deliver_staged(
            plan.queue_id, plan.now_at, plan.max_attempts,
            case when plan.recorded_at <= plan.now_at then plan.floor_times end, plan.floor_ids
        );
        plan.now_at := pgq._clock();
    end if;
    if pgq._keeps_snapshot() then
        -- Raises 40001 if the queue has changed (was paused, say) since the snapshot.
        perform pgq._unchanged(plan.queue_id);
    end if;
    if plan.is_limited or plan.max_leased_per_key is not null then
        plan.wanted := pgq._allowed_claims(plan.queue_id, plan.wanted);
        if plan.wanted = 0 then
            return plan;
        end if;
    end if;
    if plan.is_ordered or plan.max_leased_per_key is not null then
        if plan.recorded_at > plan.now_at
            or plan.recorded_at < plan.now_at - interval '5 seconds'
            and pg_stat_get_dead_tuples('pgq.key_wakeup'::regclass) < 3000
        then
            wakeups_from := '-infinity';
        end if;
        -- Jobs unblocked here are due now, so the clock is read again.
        if plan.is_ordered then
            perform pgq._process_wakeups(plan.queue_id, wakeups_from, plan.now_at, plan.wanted);
        end if;
        if plan.max_leased_per_key is not null then
            plan.max_leased_per_key := pgq._open_keys(
                plan.queue_id, case when plan.recorded_at <= plan.now_at then wakeups_from end,
                plan.wanted
            );
        end if;
        plan.now_at := pgq._clock();
    end if;

    if plan.recorded_at > plan.now_at and plan.recorded_at > pgq._clock() then
        -- The clock was set back, and the floors may not be reset yet because their lock is held:
        -- ignore them.
        plan.floor_times := array_fill('-infinity'::timestamptz, array[10]);
        plan.floor_ids := array_fill(0::bigint, array[10]);
        plan.epoch := null;
    end if;
    if plan.is_subscribed and label is null and plan.max_leased_per_key is null then
        perform pgq._expand_extents(
            plan.queue_id, plan.wanted, plan.now_at, plan.max_attempts, plan.floor_times[1],
            plan.floor_ids[1]
        );
    end if;
    plan.common_times := plan.floor_times;
    plan.common_ids := plan.floor_ids;
    if label is not null then
        plan := pgq._with_label_floors(plan, label);
    end if;
    return plan;
end
$$;

comment on function pgq._plan_claim(text, integer, interval, text) is
'Reads from the queue how many jobs a claim may lease and where its search starts, and prepares due
jobs: makes those of subscriptions, unblocks the next ones of keys.';
