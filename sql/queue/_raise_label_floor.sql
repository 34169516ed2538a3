create function pgq._raise_label_floor(queue_id bigint, label text, moment timestamptz)
returns void
language plpgsql volatile parallel unsafe
set jit = off
set enable_sort = off
as $$
declare
    common pgq.queue_floor;
    state pgq.queue_floor;
    place text collate "C" := '=' || label;
    times timestamptz[];
    ids bigint[];
begin
    if not pgq._lock_floor(queue_id) then
        return;
    end if;

    -- A new statement: its snapshot is younger than the lock.
    select f.*
    into common
    from pgq.queue_floor as f
    where f.queue_id = _raise_label_floor.queue_id and f.label = ''
    order by f.seq desc
    limit 1;

    -- First those of all claims: perhaps nobody claims without a label. It is there that a clock
    -- which was set back is noticed.
    if common.recorded_at < moment - interval '20 milliseconds' or common.recorded_at > pgq._clock()
    then
        perform pgq._raise_floor(queue_id, moment);
        select f.*
        into common
        from pgq.queue_floor as f
        where f.queue_id = _raise_label_floor.queue_id and f.label = ''
        order by f.seq desc
        limit 1;
    end if;

    select f.*
    into state
    from pgq.queue_floor as f
    where f.queue_id = _raise_label_floor.queue_id and f.label = place
    order by f.seq desc
    limit 1;

    if common.recorded_at > moment or (state.recorded_at > moment and state.epoch = common.epoch)
    then
        -- A claim that began later was here first.
        return;
    end if;

    -- What holds for all jobs holds for those of a label. Its own floors never stand above the
    -- safe_at of all: where the clock was set back below them, that has begun another epoch.
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

    -- They rise as those of all claims do: to the label's first job that can still be delivered, or
    -- else to where it is proved safe for all.
    select
        array_agg(
            case
                when f.floor_time >= common.safe_at then f.floor_time
                else coalesce(j.visible_at, common.safe_at)
            end
            order by f.place
        ),
        array_agg(
            case when f.floor_time >= common.safe_at then f.floor_id else coalesce(j.job_id, 0) end
            order by f.place
        )
    into times, ids
    from unnest(state.floor_times, state.floor_ids)
        with ordinality as f (floor_time, floor_id, place)
    left join lateral (
        select k.visible_at, k.job_id
        from pgq.job as k
        where -k.queue_id = -_raise_label_floor.queue_id
            and k.label = _raise_label_floor.label collate "C"
            and k.priority = f.place - 1
            and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
            and k.visible_at < common.safe_at
            and (k.expires_at is null or k.expires_at > _raise_label_floor.moment)
        order by k.visible_at, k.job_id
        limit 1
    ) as j on true;

    -- Only where a job of other claims keeps the floors of all low does a label need its own.
    if state.epoch is distinct from common.epoch
        and times = common.floor_times
        and ids = common.floor_ids
    then
        return;
    end if;

    insert into pgq.queue_floor (
        queue_id,
        label,
        seq,
        epoch,
        floor_times,
        floor_ids,
        recorded_at,
        safe_at,
        candidate_at,
        candidate_xid
    )
    values (
        _raise_label_floor.queue_id,
        place,
        coalesce(state.seq, 0) + 1,
        common.epoch,
        times,
        ids,
        _raise_label_floor.moment,
        common.safe_at,
        common.candidate_at,
        common.candidate_xid
    );

    -- Labels may be many: each has one row. Found by its number, so no dead rows are walked.
    delete from pgq.queue_floor as f
    where f.queue_id = _raise_label_floor.queue_id and f.label = place and f.seq = state.seq;
end
$$;

comment on function pgq._raise_label_floor(bigint, text, timestamptz) is
'Raises the floors of claims that ask for a label, and before them those of all claims.';
