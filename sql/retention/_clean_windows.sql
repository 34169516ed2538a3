create function pgq._clean_windows(
    started pg_snapshot, horizon xid8, oldest_xid xid8, now_at timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- Correct an ends_at that was written while the clock was ahead.
    update pgq.former_window as f
    set ends_at = now_at + f.window_length
    where f.ends_at > now_at + f.window_length;

    -- As in _close_segments: once all transactions below the horizon have ended, none stores keys
    -- by the former window; the last key counts from now at most. An xid above the snapshot dates
    -- from before a restore into another cluster.
    update pgq.former_window as f
    set ends_at = now_at + f.window_length
    where f.ends_at is null and f.horizon <= oldest_xid;

    update pgq.former_window as f
    set horizon = _clean_windows.horizon
    where f.ends_at is null
        and (f.horizon is null or f.horizon >= pg_snapshot_xmax(pg_current_snapshot()))
        and (
            pg_visible_in_snapshot(f.noted_xid, started)
            or f.noted_xid >= pg_snapshot_xmax(pg_current_snapshot())
        );

    delete from pgq.former_window as f where f.ends_at <= now_at;
end
$$;

comment on function pgq._clean_windows(pg_snapshot, xid8, xid8, timestamptz) is
'The part of cleanup that deletes former idempotency windows whose keys have all expired.';
