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
    raised_times timestamptz[];
    raised_ids bigint[];
    -- When this transaction began: whoever had read the clock by then had an id, and a lower one
    -- than this transaction. An id of the snapshot would not do: those at work may have higher ones
    -- than the latest that has ended.
    begun_at timestamptz := _raise_floor.moment - (clock_timestamp() - now());
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
    raised_times := state.floor_times;
    raised_ids := state.floor_ids;
    snapshot := pg_current_snapshot();

    if state.candidate_at >= begun_at then
        if state.candidate_at <= pgq._clock() then
            -- A transaction that began later was here first.
            return;
        end if;
        -- The clock was set back. Begin anew: jobs may have been written below the floors.
        raised_times := array_fill('-infinity'::timestamptz, array[10]);
        raised_ids := array_fill(0::bigint, array[10]);
    elsif state.candidate_xid <= pg_snapshot_xmin(snapshot) then
        -- Every transaction that could write below the candidate has ended: whoever began later
        -- reads a later clock. So the floor may rise to the first job there is, or else to the
        -- candidate; not looking further, for there stand the leases of finished jobs.
        select
            array_agg(
                case
                    when f.floor_time >= state.candidate_at then f.floor_time
                    when j.visible_at < state.candidate_at then j.visible_at
                    else state.candidate_at
                end
                order by f.place
            ),
            array_agg(
                case
                    when f.floor_time >= state.candidate_at then f.floor_id
                    when j.visible_at < state.candidate_at then j.job_id
                    else 0
                end
                order by f.place
            )
        into raised_times, raised_ids
        from unnest(state.floor_times, state.floor_ids)
            with ordinality as f (floor_time, floor_id, place)
        left join lateral (
            select k.visible_at, k.job_id
            from pgq.job as k
            where k.queue_id = _raise_floor.queue_id
                and k.priority = f.place - 1
                and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                and k.visible_at < state.candidate_at
                and (k.expires_at is null or k.expires_at > _raise_floor.moment)
            order by k.visible_at, k.job_id
            limit 1
        ) as j on true;
    elsif state.candidate_xid <= pg_snapshot_xmax(snapshot) then
        -- Too early for this candidate.
        return;
    end if;

    insert into pgq.queue_floor (
        queue_id, seq, floor_times, floor_ids, candidate_at, candidate_xid
    )
    values (
        _raise_floor.queue_id,
        state.seq + 1,
        raised_times,
        raised_ids,
        begun_at,
        pg_current_xact_id()
    );

    -- One row goes for each that comes, found by its number, so no dead rows are walked.
    delete from pgq.queue_floor as f
    where f.queue_id = _raise_floor.queue_id
        and f.seq = state.seq - 63;
end
$$;

comment on function pgq._raise_floor(bigint, timestamptz) is
'Raises the floors of a queue as far as is proved safe, and notes the next candidate.';
