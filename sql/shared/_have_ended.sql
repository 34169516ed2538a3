create function pgq._have_ended(before_xid xid8, tables regclass[])
returns boolean
language plpgsql
volatile
parallel unsafe
set enable_nestloop = off
set jit = off
as $$
#variable_conflict use_column
begin
    if _have_ended.before_xid is null then
        return null;
    end if;
    if _have_ended.before_xid <= pg_snapshot_xmin(pg_current_snapshot()) then
        return true;
    end if;
    -- What it reads next it would read as of now.
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        return false;
    end if;

    -- Of those that are open, a transaction without a lock on these tables has read nothing of them
    -- yet: locks are taken before anything is read, and kept to the end. So whatever it reads later
    -- it reads as one whose id comes later. Locks go after the rows of their transaction can be
    -- seen: who is not met here has come later, or is seen by the next statement. All from one look
    -- at the locks, which has those on tables first and then those on ids.
    return not exists (
        with held as materialized (
            select
                l.locktype,
                l.virtualtransaction,
                l.relation,
                l.transactionid::text::bigint as low_xid
            from pg_locks as l
            where l.locktype = 'relation'
                and l.database = (
                    select d.oid
                    from pg_database as d
                    where d.datname = current_database()
                )
                or l.locktype = 'transactionid'
                and l.mode = 'ExclusiveLock'
                and l.granted
        )

        select
        from held as x
        inner join held as t on t.virtualtransaction = x.virtualtransaction
        where x.locktype = 'transactionid'
            -- Lower, as far as the lower half of an id tells.
            and (_have_ended.before_xid::text::bigint - x.low_xid) & 4294967295
                between 1 and 2147483647
            and t.locktype = 'relation'
            and t.relation in (
                select unnest(_have_ended.tables)
                union all
                select c.oid
                from pg_class as c
                -- Sequences keep their locks when a savepoint is undone.
                where c.relkind in ('r', 'p')
                    and c.relnamespace = 'pgq'::regnamespace
                    and _have_ended.tables is null
            )
    );
end
$$;

comment on function pgq._have_ended(xid8, regclass[]) is
'True when every transaction with an id below this one has ended, or has read nothing of these
tables so far (null: of any table of pgq), and so will read what is there by then. The rows of
those that have ended are seen by the next statement.';
