create function pgq._close_segments(
    objects int8multirange, started pg_snapshot, horizon xid8, oldest_xid xid8, now_at timestamptz
)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    row_xid bigint;
    own_xid bigint := pg_current_xact_id()::text::bigint;
begin
    for target in
        select s.segment
        from pgq.segment as s
        where s.state = 'sealed'
            and s.segment::bigint <@ objects
            and (
                s.horizon is null
                -- A transaction that takes its id from now on sees the segment sealed, even while
                -- older transactions are open.
                and (
                    pg_visible_in_snapshot(s.sealed_xid, started)
                    or s.sealed_xid >= pg_snapshot_xmax(pg_current_snapshot())
                )
                -- Other transactions do not see what this one has sealed.
                and s.sealed_xid <> pg_current_xact_id()
                or s.horizon >= pg_snapshot_xmax(pg_current_snapshot())
            )
        for update skip locked
    loop
        -- Record the horizon, an xid taken after the segment was seen sealed: no transaction from
        -- that one on can write to it. If this transaction had an id before (horizon is null), use
        -- the xmin of the row: cleanup runs each part in a subtransaction, which has an xid of its
        -- own. An xid above the snapshot dates from before a restore into another cluster: all
        -- transactions of that time are gone.
        update pgq.segment as s
        set horizon = _close_segments.horizon
        where s.segment = target.segment
        returning s.xmin::text::bigint
        into row_xid;

        continue when horizon is not null;

        row_xid := row_xid + (own_xid >> 32 << 32);
        if row_xid < own_xid then
            row_xid := row_xid + (1::bigint << 32);
        end if;

        update pgq.segment as s set horizon = row_xid::text::xid8 where s.segment = target.segment;
    end loop;

    -- Partitions without a new message still point to a sealed segment.
    if pgq._settle_partitions(null, objects, 1000) = 1000 then
        return next row('more', 'closing', 1)::pgq.cleanup_action;
    end if;

    for target in
        select s.segment
        from pgq.segment as s
        where s.state = 'sealed' and s.segment::bigint <@ objects and s.horizon <= oldest_xid
        order by s.segment
        for update skip locked
    loop
        -- A publisher may have locked one of its partitions: leave it to a later call.
        continue when exists (select from pgq.partition as p where p.segment = target.segment);
        continue when not pgq._leave_segment(target.segment);

        update pgq.segment as s
        set state = 'closed', closed_at = now_at
        where s.segment = target.segment;

        return next row('segment closed', target.segment::text, 1)::pgq.cleanup_action;
    end loop;
end
$$;

comment on function pgq._close_segments(int8multirange, pg_snapshot, xid8, xid8, timestamptz) is
'The part of cleanup that closes those of these segments that are sealed, once no transaction can
write to them any more.';
