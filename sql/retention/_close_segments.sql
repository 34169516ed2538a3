create function pgq._close_segments(
    started pg_snapshot, horizon xid8, settled xid8, moment timestamptz
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
            and (
                s.horizon is null
                -- Whoever takes an id from now on sees it sealed, however old those at work are.
                and (
                    pg_visible_in_snapshot(s.sealed_xid, _close_segments.started)
                    or s.sealed_xid >= pg_snapshot_xmax(pg_current_snapshot())
                )
                -- Others do not see what this transaction sealed.
                and s.sealed_xid <> pg_current_xact_id()
                or s.horizon >= pg_snapshot_xmax(pg_current_snapshot())
            )
        for update skip locked
    loop
        -- Note from which transaction on nobody can write to it any more: an id taken after it was
        -- seen sealed. Where this transaction had its own before, the row has one, for cleanup does
        -- each of its parts in a subtransaction. An id from before a restore into another cluster
        -- may lie in the future here: all its contemporaries are gone.
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

    -- Partitions that had no message since still point to a sealed one.
    if pgq._settle_partitions(null, 1000) = 1000 then
        return next row('more', 'closing', 1)::pgq.cleanup_action;
    end if;

    for target in
        select s.segment
        from pgq.segment as s
        where s.state = 'sealed' and s.horizon <= _close_segments.settled
        order by s.segment
        for update skip locked
    loop
        -- A publisher may hold one of them.
        continue when exists (select from pgq.partition as p where p.segment = target.segment);
        continue when not pgq._leave_segment(target.segment);

        update pgq.segment as s
        set state = 'closed', closed_at = _close_segments.moment
        where s.segment = target.segment;

        return next row('segment closed', target.segment::text, 1)::pgq.cleanup_action;
    end loop;
end
$$;

comment on function pgq._close_segments(pg_snapshot, xid8, xid8, timestamptz) is
'The part of cleanup that closes sealed segments once nobody can write to them any more.';
