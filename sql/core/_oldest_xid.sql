create function pgq._oldest_xid(tables text[])
returns xid8
language plpgsql volatile parallel unsafe
as $$
declare
    snapshot pg_snapshot := pg_current_snapshot();
    open_xids bigint[] := array(select x::text::bigint from pg_snapshot_xip(snapshot) as x);
    database_id oid := (select d.oid from pg_database as d where d.datname = current_database());
    table_ids oid[];
    bystanders bigint[];
    next_xid bigint := pg_snapshot_xmax(snapshot)::text::bigint;
begin
    -- Above READ COMMITTED the next statement has the same snapshot.
    if open_xids = '{}' or database_id is null or pgq._keeps_snapshot() then
        return pg_snapshot_xmin(snapshot);
    end if;

    if tables is null then
        -- Without sequences: their locks survive a rollback to a savepoint.
        table_ids := array(
            select c.oid
            from pg_class as c
            where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p')
        );
    else
        table_ids := array(select ('pgq.' || t)::regclass::oid from unnest(tables) as t);
    end if;

    -- An open transaction without a lock on these tables has read none of them, since locks are
    -- taken before reads and kept to the end: it counts as one that begins later. Exempt only
    -- transactions whose xid lock is visible in this one scan; one that starts or ends during it
    -- counts as active. No join: pg_locks must be scanned once, whatever the settings of the
    -- caller.
    bystanders := array(
        select unnest(
            array_agg(l.transactionid::text::bigint) filter (where l.locktype = 'transactionid')
        )
        from pg_locks as l
        where l.locktype = 'transactionid'
            and l.mode = 'ExclusiveLock'
            and l.granted
            or l.locktype = 'relation'
            and l.database = database_id
            and l.relation = any(table_ids)
        group by l.virtualtransaction
        having not bool_or(l.locktype = 'relation')
    );

    -- pg_locks shows only the low 32 bits of an xid; that is enough to identify a running
    -- transaction.
    return least(
        next_xid, pg_current_xact_id_if_assigned()::text::bigint,
        (
            select min(next_xid - ((next_xid - i.low) & 4294967295))
            from (
                select x.xid & 4294967295
                from unnest(open_xids) as x (xid)
                except
                select unnest(bystanders)
            ) as i (low)
        )
    )::text::xid8;
end
$$;

comment on function pgq._oldest_xid(text[]) is
'The oldest active xid: each transaction with a lower id has ended, or has read none of these tables
of pgq (null: none at all) so far and will see what is committed by then. The next statement sees
the rows of those that have ended.';
