create function pgq._holder_samples()
returns setof pgq._sample
language plpgsql stable parallel safe
set jit = off
as $$
begin
    return query
    with holders as materialized (
        (
            select
                'transaction' as kind,
                coalesce(nullif(a.application_name, ''), a.backend_type, '') as name,
                a.pid::text as pid, coalesce(a.usename, '') as role,
                coalesce(a.datname, '') as database,
                -- Null for sessions of other roles that the owner of pgq may not see.
                a.xact_start as since,
                greatest(age(a.backend_xid), age(a.backend_xmin)) as transactions
            from pg_stat_activity as a
            where a.pid <> pg_backend_pid()
                and (a.backend_xid is not null or a.backend_xmin is not null)
            order by greatest(age(a.backend_xid), age(a.backend_xmin)) desc, a.xact_start, a.pid
            limit 1
        )
        union all
        (
            select
                'prepared transaction', p.gid, '', p.owner, p.database, p.prepared,
                age(p.transaction)
            from pg_prepared_xacts as p
            order by p.prepared
            limit 1
        )
        union all
        select
            'replication slot', s.slot_name, coalesce(s.active_pid::text, ''), '',
            coalesce(s.database, ''), null, greatest(age(s.xmin), age(s.catalog_xmin))
        from pg_replication_slots as s
        where s.xmin is not null or s.catalog_xmin is not null
    )

    select
        s.name,
        jsonb_build_object(
            'kind', h.kind, 'name', h.name, 'pid', h.pid, 'role', h.role, 'database', h.database
        ),
        s.value::double precision
    from holders as h
    cross join lateral (
        values
        ('pgq_held_seconds', extract(epoch from clock_timestamp() - h.since)),
        ('pgq_held_transactions', h.transactions)
    ) as s (name, value)
    where s.value is not null
    union all
    select
        'pgq_slot_retained_bytes',
        jsonb_build_object(
            'name', s.slot_name, 'database', coalesce(s.database, ''), 'active', s.active::text
        ),
        greatest(
            pg_wal_lsn_diff(
                case
                    when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                    else pg_current_wal_lsn()
                end,
                s.restart_lsn
            ),
            0
        )
    from pg_replication_slots as s
    where s.restart_lsn is not null;
end
$$;

comment on function pgq._holder_samples() is
'Samples of what holds back cleanup and vacuum: the oldest transaction and prepared transaction of
the server, and its replication slots.';
