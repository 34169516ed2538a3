create function pgq._is_proved(state pgq.queue_floor, now_at timestamptz)
returns boolean
language plpgsql volatile parallel unsafe
as $$
begin
    -- Proof: a writer of visible_at takes its xid first, then a lock on queue or job, and only then
    -- reads the clock. So once every transaction below candidate_xid has ended or holds no such
    -- lock yet, nothing is written below candidate_at any more: the others will read a later clock.
    -- pg_locks is scanned only while some transaction stays open, and not each time: a scan costs
    -- as much as a thousand dead rows. A candidate_xid that another transaction wrote is below the
    -- snapshot's xmax, unless it is from before a restore into another cluster: then all
    -- transactions of its time are gone.
    return case
        when state.candidate_xid <= pg_snapshot_xmin(pg_current_snapshot()) then true
        when state.candidate_xid >= pg_snapshot_xmax(pg_current_snapshot())
            then state.candidate_xid <> pg_current_xact_id()
        -- What has ended since may have written jobs that a kept snapshot does not show.
        when pgq._keeps_snapshot() then false
        when state.seq % 16 = 0
            or state.recorded_at < now_at - interval '10 seconds'
            then state.candidate_xid <= pgq._oldest_xid(array['queue', 'job'])
    end;
end
$$;

comment on function pgq._is_proved(pgq.queue_floor, timestamptz) is
'Returns whether no job is written below the candidate_at of these floors any more.';
