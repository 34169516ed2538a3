create function pgq._raise_label_floor(queue_id bigint, label text, now_at timestamptz)
returns void
language plpgsql volatile parallel unsafe
set jit = off
set enable_sort = off
as $$
declare
    common pgq.queue_floor;
    state pgq.queue_floor;
begin
    if not pgq._lock_floor(queue_id, repeatable => true) then
        return;
    end if;

    -- Lock before reading: this new statement has a snapshot newer than the lock.
    select f.* into common from pgq._read_floors(queue_id, '') as f;

    -- Raise the common floors first: perhaps all claims ask for labels. Only there is a clock that
    -- was set back detected.
    if common.recorded_at < now_at - interval '20 milliseconds' or common.recorded_at > pgq._clock()
    then
        perform pgq._raise_floor(queue_id, now_at);
        select f.* into common from pgq._read_floors(queue_id, '') as f;
    end if;

    select f.* into state from pgq._read_floors(queue_id, '=' || label) as f;

    if common.recorded_at > now_at or (state.recorded_at > now_at and state.epoch = common.epoch)
    then
        -- A claim that began later was first.
        return;
    end if;

    -- The common floors hold for this label too: take the higher ones. A label's floors are never
    -- above the common safe_at: a clock set back below them has begun a new epoch.
    if state.epoch = common.epoch then
        for number in 1 .. 10 loop
            if (common.floor_times[number], common.floor_ids[number])
                > (state.floor_times[number], state.floor_ids[number])
            then
                state.floor_times[number] := common.floor_times[number];
                state.floor_ids[number] := common.floor_ids[number];
            end if;
        end loop;
    else
        state.floor_times := common.floor_times;
        state.floor_ids := common.floor_ids;
    end if;

    -- Raise as in _raise_floor: to the label's first job that can still be claimed, or else to
    -- safe_at.
    select
        array_agg(
            case
                when f.floor_time >= common.safe_at then f.floor_time
                else coalesce(j.visible_at, common.safe_at)
            end
            order by f.ordinal
        ),
        array_agg(
            case when f.floor_time >= common.safe_at then f.floor_id else coalesce(j.job_id, 0) end
            order by f.ordinal
        )
    into state.floor_times, state.floor_ids
    from unnest(state.floor_times, state.floor_ids)
        with ordinality as f (floor_time, floor_id, ordinal)
    left join lateral (
        select k.visible_at, k.job_id
        from pgq.job as k
        where -k.queue_id = -_raise_label_floor.queue_id
            and k.label = _raise_label_floor.label collate "C"
            and k.priority = f.ordinal - 1
            and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
            and k.visible_at < common.safe_at
            and (k.expires_at is null or k.expires_at > now_at)
        order by k.visible_at, k.job_id
        limit 1
    ) as j on true;

    -- A label needs floors of its own only where jobs of other claims hold the common floors down.
    if state.epoch is distinct from common.epoch
        and state.floor_times = common.floor_times
        and state.floor_ids = common.floor_ids
    then
        return;
    end if;

    common.label := '=' || label;
    common.seq := coalesce(state.seq, 0) + 1;
    common.floor_times := state.floor_times;
    common.floor_ids := state.floor_ids;
    common.recorded_at := now_at;
    common.wakeup_floor := null;
    -- Keep one row per label, as there may be many.
    perform pgq._write_floor(common, state.seq);
end
$$;

comment on function pgq._raise_label_floor(bigint, text, timestamptz) is
'Raises the common floors of a queue, then those of claims that ask for this label.';
