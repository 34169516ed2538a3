create function pgq._has_ended(horizon xid8)
returns boolean
language sql stable parallel unsafe
as $$
select
    _has_ended.horizon <> pg_current_xact_id()
    and (
        _has_ended.horizon <= pg_snapshot_xmin(pg_current_snapshot())
        or _has_ended.horizon >= pg_snapshot_xmax(pg_current_snapshot())
    )
$$;

comment on function pgq._has_ended(xid8) is
'Returns whether all transactions below this one have ended; null: it is null. A horizon above the
snapshot is from before a restore into another cluster.';
