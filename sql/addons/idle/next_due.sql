create function pgq.next_due(queue text, label text default null)
returns timestamptz
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    plan pgq._claim_plan;
    is_paused boolean;
    wakeups_from timestamptz;
    extent_due timestamptz;
    wakeup_due timestamptz;
begin
    perform pgq._check_label(label);
    perform pgq._check_access(null, queue collate "C", 'consume');

    select
        q.queue_id, q.paused, q.ordered or q.max_leased_per_key is not null, q.subscribed,
        pgq._clock(), f.floor_times, f.floor_ids, f.recorded_at, f.epoch,
        coalesce(f.wakeup_floor, '-infinity')
    into
        plan.queue_id, is_paused, plan.is_ordered, plan.is_subscribed, plan.now_at,
        plan.floor_times, plan.floor_ids, plan.recorded_at, plan.epoch, wakeups_from
    from pgq.queue as q
    cross join lateral pgq._read_floors(q.queue_id, '') as f
    where q.queue = next_due.queue collate "C";

    if plan.queue_id is null then
        perform pgq._fail_unknown_queue(queue collate "C");
    end if;
    if is_paused then
        return null;
    end if;

    if plan.recorded_at > plan.now_at then
        -- The clock was set back: ignore the floors, as a claim does.
        plan.floor_times := array_fill('-infinity'::timestamptz, array[10]);
        plan.floor_ids := array_fill(0::bigint, array[10]);
        plan.epoch := null;
        wakeups_from := '-infinity';
    end if;
    if plan.is_subscribed and label is null then
        select x.visible_at
        into extent_due
        from pgq.job_extent as x
        where x.queue_id = plan.queue_id
            and x.visible_at >= plan.floor_times[1]
            and (x.expires_at is null or x.expires_at > plan.now_at)
        order by x.visible_at, x.extent_id
        limit 1;
    end if;
    if label is not null then
        plan := pgq._with_label_floors(plan, label);
    end if;

    if plan.is_ordered then
        select w.look_at
        into wakeup_due
        from pgq.key_wakeup as w
        where w.queue_id = plan.queue_id and w.look_at >= wakeups_from
        order by w.look_at
        limit 1;
    end if;

    -- Infinity: all jobs are blocked by others of their keys.
    return nullif(least(pgq._first_due(plan, label), extent_due, wakeup_due), 'infinity');
end
$$;

comment on function pgq.next_due(text, text) is
'Returns when a claim of the queue may next find a job, if nothing is added until then.
For a worker whose claim found no job: the time at which a delayed job is due, or the lease of
another worker ends. label: considers only jobs with this label. A time in the past: jobs are due,
but a limit of the queue or an open transaction holds them back; ask again after a while. Null: the
queue has no such job, or is paused. A queue with notify notifies the channel pgq_queue when a job
is added, or becomes due earlier than it was.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad label.';
