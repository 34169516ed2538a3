create function pgq._raise_floor(queue_id bigint, moment timestamptz)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq.queue_floor;
    snapshot pg_snapshot;
    raised timestamptz[];
begin
    -- Another claim is at it, or this session's snapshot is older than the newest row: leave it be.
    perform 1
    from pgq.queue_floor_lock as l
    where l.queue_id = _raise_floor.queue_id
    for no key update skip locked;
    if not found or current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;

    -- A new statement: its snapshot is younger than the lock.
    select f.*
    into state
    from pgq.queue_floor as f
    where f.queue_id = _raise_floor.queue_id
    order by f.seq desc
    limit 1;
    raised := state.floors;
    snapshot := pg_current_snapshot();

    if state.candidate_at > _raise_floor.moment then
        if state.candidate_at <= pgq._clock() then
            -- A claim that began later was here first.
            return;
        end if;
        -- The clock was set back. Begin anew: jobs may have been written below the floors.
        raised := array_fill('-infinity'::timestamptz, array[10]);
    elsif state.candidate_xid <= pg_snapshot_xmin(snapshot) then
        -- Every transaction that could write below the candidate has ended: whoever began later
        -- reads a later clock. So the floor may rise to the first job there is, or else to the
        -- candidate.
        select array_agg(
            greatest(
                f.floor,
                least(
                    state.candidate_at,
                    (
                        select j.visible_at
                        from pgq.job as j
                        where j.queue_id = _raise_floor.queue_id
                            and j.priority = f.place - 1
                            and j.visible_at >= f.floor
                        order by j.visible_at
                        limit 1
                    )
                )
            )
            order by f.place
        )
        into raised
        from unnest(state.floors) with ordinality as f (floor, place);
    elsif state.candidate_xid <= pg_snapshot_xmax(snapshot) then
        -- Too early for this candidate.
        return;
    end if;

    insert into pgq.queue_floor (queue_id, seq, floors, candidate_at, candidate_xid)
    values (
        _raise_floor.queue_id,
        state.seq + 1,
        raised,
        _raise_floor.moment,
        pg_snapshot_xmax(snapshot)
    );

    -- One row goes for each that comes, found by its number, so no dead rows are walked.
    delete from pgq.queue_floor as f
    where f.queue_id = _raise_floor.queue_id
        and f.seq = state.seq - 63;

end
$$;

comment on function pgq._raise_floor(bigint, timestamptz) is
'Raises the floors of a queue as far as is proved safe, and notes the next candidate.';
