create function pgq._staged_since(partition_id bigint)
returns pgq._staged_since
language plpgsql stable parallel safe
as $$
declare
    noted pgq.assignment;
    since pgq._staged_since;
    snapshot pg_snapshot := pg_current_snapshot();
    -- xids are taken modulo 2^27, see _staged_id.
    slots bigint := 134217728;
    next_xid bigint := pg_snapshot_xmax(snapshot)::text::bigint;
    own_xid bigint := pg_current_xact_id_if_assigned()::text::bigint;
begin
    select a.*
    into noted
    from pgq.assignment as a
    where a.partition_id = _staged_since.partition_id
    order by a.seq desc
    limit 1;

    since.seq := coalesce(noted.seq, 0);
    since.lowest := pgq._staged_id(partition_id, 0);
    since.late_xids := '{}';
    since.system_identifier := case
        when noted.server_started = pg_postmaster_start_time() then noted.system_identifier
        else (select c.system_identifier from pg_control_system() as c)
    end;
    if noted.system_identifier = since.system_identifier
        and noted.next_xid::text::bigint / slots = next_xid / slots
        and noted.next_xid::text::bigint <= next_xid
    then
        since.lowest := since.lowest + noted.next_xid::text::bigint % slots;
        -- Race: only the statement that reads the messages of these xids may test which have ended.
        -- A test by an older snapshot could miss a key's message that its later message follows.
        -- Those from before the last multiple of 2^27 are looked for anyway.
        since.late_xids := array(
            select x.xid
            from unnest(noted.open_xids) as x (xid)
            where pgq._staged_id(partition_id, x.xid::text::bigint) < since.lowest
        );
    end if;

    -- Count this transaction as open: it may publish more.
    since.next_xid := next_xid::text::xid8;
    since.open_xids := array(
        select x.xid
        from pg_snapshot_xip(snapshot) as x (xid)
    ) || case when own_xid < next_xid then array[own_xid::text::xid8] else '{}' end;
    return since;
end
$$;

comment on function pgq._staged_since(bigint) is
'Returns where to look for the staged messages of a partition that have no offsets yet.
This only
shortens the search: any message found there has no offset, so looking too far back does no harm.';
