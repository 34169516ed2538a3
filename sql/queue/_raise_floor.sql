create function pgq._raise_floor(queue_id bigint, now_at timestamptz)
returns void
language plpgsql volatile parallel unsafe
set enable_bitmapscan = off
set jit = off
as $$
declare
    state pgq.queue_floor;
    -- Start of this transaction: every transaction that had read the clock by then had its xid
    -- already, below ours. The snapshot's xmax would not do: running transactions may have higher
    -- xids than the latest completed one. Capped at now_at in case the clock was set back since.
    begun_at timestamptz := least(now_at, now_at - (clock_timestamp() - now()));
begin
    -- Another transaction is changing the floors: skip.
    if not pgq._lock_floor(queue_id, repeatable => true) then
        return;
    end if;

    -- Lock before reading: this new statement has a snapshot newer than the lock.
    select f.* into state from pgq._read_floors(queue_id, '') as f;

    if state.recorded_at > now_at then
        if state.recorded_at <= pgq._clock() then
            -- A claim that began later was first.
            return;
        end if;
        -- The clock was set back: start again, since jobs may have been written below the floors.
        state.epoch := state.epoch + 1;
        state.floor_times := array_fill('-infinity'::timestamptz, array[10]);
        state.floor_ids := array_fill(0::bigint, array[10]);
        state.safe_at := '-infinity';
        state.wakeup_floor := case when state.wakeup_floor is not null then '-infinity' end;
        state.candidate_at := begun_at;
        state.candidate_xid := pg_current_xact_id();
    end if;

    if pgq._is_proved(state, now_at) then
        state.safe_at := greatest(state.safe_at, state.candidate_at);
        state.candidate_at := begun_at;
        state.candidate_xid := pg_current_xact_id();
    end if;

    -- Raise to the first job that can still be claimed, or else to safe_at. Stop at safe_at: above
    -- it lie dead rows of finished jobs.
    select
        array_agg(
            case
                when f.floor_time >= state.safe_at then f.floor_time
                else coalesce(least(j.visible_at, r.visible_at), state.safe_at)
            end
            order by f.ordinal
        ),
        array_agg(
            case
                when f.floor_time >= state.safe_at then f.floor_id
                when r.visible_at < j.visible_at then 0
                else coalesce(j.job_id, 0)
            end
            order by f.ordinal
        )
    into state.floor_times, state.floor_ids
    from unnest(state.floor_times, state.floor_ids)
        with ordinality as f (floor_time, floor_id, ordinal)
    left join lateral (
        select k.visible_at, k.job_id
        from pgq.job as k
        where k.queue_id = _raise_floor.queue_id
            and k.priority = f.ordinal - 1
            and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
            and k.visible_at < state.safe_at
            and (k.expires_at is null or k.expires_at > now_at)
        order by k.visible_at, k.job_id
        limit 1
    ) as j on true
    -- Job batches hold the floor as well: their jobs get the batch's visible_at, and ids above all
    -- so far.
    left join lateral (
        select k.visible_at
        from pgq.job_extent as k
        where f.ordinal = 1
            and k.queue_id = _raise_floor.queue_id
            and k.visible_at >= f.floor_time
            and k.visible_at < state.safe_at
            and (k.expires_at is null or k.expires_at > now_at)
        order by k.visible_at, k.extent_id
        limit 1
    ) as r on true;

    if state.wakeup_floor < state.safe_at then
        -- The floor of wake-up records, in the same way.
        state.wakeup_floor := coalesce(
            (
                select n.look_at
                from pgq.key_wakeup as n
                where n.queue_id = _raise_floor.queue_id
                    and n.look_at >= state.wakeup_floor
                    and n.look_at < state.safe_at
                order by n.look_at
                limit 1
            ),
            state.safe_at
        );
    end if;

    state.seq := state.seq + 1;
    state.recorded_at := now_at;
    perform pgq._write_floor(state, state.seq - 64);
end
$$;

comment on function pgq._raise_floor(bigint, timestamptz) is
'Raises the floors (low-water marks) of a queue as far as is proved safe.';
