create function pgq._raise_floor(queue_id bigint, moment timestamptz)
returns void
language plpgsql volatile parallel unsafe
set enable_bitmapscan = off
set jit = off
as $$
declare
    state pgq.queue_floor;
    -- When this transaction began: whoever had read the clock by then had an id, and a lower one
    -- than this transaction. An id of the snapshot is not enough: running ones may have higher ids
    -- than the latest that has ended. Never later than this moment, should the clock have been set
    -- back since.
    begun_at timestamptz := least(moment, moment - (clock_timestamp() - now()));
begin
    -- When another claim is raising it at this moment, this one leaves it alone.
    if not pgq._lock_floor(queue_id) then
        return;
    end if;

    -- A new statement: its snapshot is younger than the lock.
    select f.*
    into state
    from pgq.queue_floor as f
    where f.queue_id = _raise_floor.queue_id and f.label = ''
    order by f.seq desc
    limit 1;

    if state.recorded_at > moment then
        if state.recorded_at <= pgq._clock() then
            -- A claim that began later was here first.
            return;
        end if;
        -- The clock was set back. Start again: jobs may have been written below the floors.
        state.epoch := state.epoch + 1;
        state.floor_times := array_fill('-infinity'::timestamptz, array[10]);
        state.floor_ids := array_fill(0::bigint, array[10]);
        state.safe_at := '-infinity';
        state.note_floor := case when state.note_floor is not null then '-infinity' end;
        state.candidate_at := begun_at;
        state.candidate_xid := pg_current_xact_id();
    end if;

    -- Whoever writes a visible_at has its transaction id first, then a lock on the table of queues
    -- or of jobs, and reads the clock only then. So once every transaction below candidate_xid has
    -- ended, or has no such lock yet, nothing is written below candidate_at any more: the others
    -- will have read a later clock. The locks are looked through where some transaction stays open,
    -- and not each time, since that takes as long as walking over a thousand dead rows. The id of a
    -- row that another transaction wrote is below the snapshot's highest one, unless it is from
    -- before a restore into another cluster: then all its contemporaries are gone.
    if (
        case
            when state.candidate_xid <= pg_snapshot_xmin(pg_current_snapshot()) then true
            when state.candidate_xid >= pg_snapshot_xmax(pg_current_snapshot())
                then state.candidate_xid <> pg_current_xact_id()
            when state.seq % 16 = 0
                or state.recorded_at < moment - interval '10 seconds'
                then state.candidate_xid <= pgq._settled_xid(array['queue', 'job'])
        end
    ) then
        state.safe_at := greatest(state.safe_at, state.candidate_at);
        state.candidate_at := begun_at;
        state.candidate_xid := pg_current_xact_id();
    end if;

    -- The floor rises to the first job that can still be claimed, or else to where it is safe;
    -- not looking further, for there stand the leases of finished jobs.
    select
        array_agg(
            case
                when f.floor_time >= state.safe_at then f.floor_time
                else coalesce(least(j.visible_at, r.visible_at), state.safe_at)
            end
            order by f.place
        ),
        array_agg(
            case
                when f.floor_time >= state.safe_at then f.floor_id
                when r.visible_at < j.visible_at then 0
                else coalesce(j.job_id, 0)
            end
            order by f.place
        )
    into state.floor_times, state.floor_ids
    from unnest(state.floor_times, state.floor_ids)
        with ordinality as f (floor_time, floor_id, place)
    left join lateral (
        select k.visible_at, k.job_id
        from pgq.job as k
        where k.queue_id = _raise_floor.queue_id
            and k.priority = f.place - 1
            and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
            and k.visible_at < state.safe_at
            and (k.expires_at is null or k.expires_at > _raise_floor.moment)
        order by k.visible_at, k.job_id
        limit 1
    ) as j on true
    -- The jobs of a run will stand where the run does, with ids that are higher than all so far.
    left join lateral (
        select k.visible_at
        from pgq.job_run as k
        where f.place = 1
            and k.queue_id = _raise_floor.queue_id
            and k.visible_at >= f.floor_time
            and k.visible_at < state.safe_at
            and (k.expires_at is null or k.expires_at > _raise_floor.moment)
        order by k.visible_at, k.run_id
        limit 1
    ) as r on true;

    if state.note_floor < state.safe_at then
        -- The notes of an ordered queue, in the same way.
        state.note_floor := coalesce(
            (
                select n.look_at
                from pgq.ordered_note as n
                where n.queue_id = _raise_floor.queue_id
                    and n.look_at >= state.note_floor
                    and n.look_at < state.safe_at
                order by n.look_at
                limit 1
            ),
            state.safe_at
        );
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
        candidate_xid,
        note_floor
    )
    values (
        _raise_floor.queue_id,
        '',
        state.seq + 1,
        state.epoch,
        state.floor_times,
        state.floor_ids,
        _raise_floor.moment,
        state.safe_at,
        state.candidate_at,
        state.candidate_xid,
        state.note_floor
    );

    -- One row goes for each that comes, found by its number, so no dead rows are walked.
    delete from pgq.queue_floor as f
    where f.queue_id = _raise_floor.queue_id and f.label = '' and f.seq = state.seq - 63;
end
$$;

comment on function pgq._raise_floor(bigint, timestamptz) is
'Raises the floors of a queue as far as is proved safe.';
