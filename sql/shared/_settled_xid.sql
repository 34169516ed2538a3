create function pgq._settled_xid(tables text[])
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
    -- Above READ COMMITTED the next statement sees no more than this one.
    if open_xids = '{}' or database_id is null or pgq._keeps_snapshot() then
        return pg_snapshot_xmin(snapshot);
    end if;

    if tables is null then
        -- Without sequences: these keep their locks when a savepoint is undone.
        table_ids := array(
            select c.oid
            from pg_class as c
            where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p')
        );
    else
        table_ids := array(
            select ('pgq.' || t)::regclass::oid
            from unnest(_settled_xid.tables) as t
        );
    end if;

    -- Open transactions without a lock on these tables have read nothing of them: locks are taken
    -- before anything is read, and kept to the end. What they read later they read as one whose id
    -- comes later. Each has to be met, with its id, in this one look: one that has just ended is
    -- not, and one whose id is not shown yet. No joins, whatever settings the caller has.
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

    -- Half of an id stands with its lock; of those that are open it tells all.
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

comment on function pgq._settled_xid(text[]) is
'Every transaction with a lower id than this one has ended, or has read nothing of these tables of
pgq so far (null: of any), and so will read what is there by then. The next statement sees the rows
of those that have ended.';
