create function pgq.create_roles()
returns table (role text, created boolean)
language plpgsql
volatile
parallel unsafe
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    name text;
    reader text;
begin
    foreach name in array array['pgq_admin', 'pgq_monitor'] loop
        create_roles.role := name;
        create_roles.created := to_regrole(name) is null;
        if create_roles.created then
            execute format('create role %I', name);
        end if;
        execute format('grant usage on schema pgq to %I', name);
        return next;
    end loop;

    grant execute on all functions in schema pgq to pgq_admin;
    for reader in
        select format('pgq.%I', c.relname)
        from pg_catalog.pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
            and c.relkind = 'v'
    loop
        execute format('grant select on %s to pgq_admin', reader);
    end loop;
    grant insert on pgq.publish_rows, pgq.enqueue_rows, pgq.write_chunks to pgq_admin;

    grant select on pgq.topic_stats, pgq.group_lag, pgq.queue_stats to pgq_monitor;
    for reader in
        select p.oid::regprocedure::text
        from pg_catalog.pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace
            and p.proname in (
                'version',
                'list_topics',
                'list_groups',
                'list_offsets',
                'list_queues',
                'list_subscriptions',
                'list_workers',
                'metrics',
                'metrics_text'
            )
    loop
        execute format('grant execute on function %s to pgq_monitor', reader);
    end loop;

    perform pgq.grant_access('pgq_admin', topic => '*', access => 'admin');
    perform pgq.grant_access('pgq_admin', queue => '*', access => 'admin');
    perform pgq.grant_access('pgq_monitor', topic => '*', access => 'monitor');
    perform pgq.grant_access('pgq_monitor', queue => '*', access => 'monitor');
end
$$;

comment on function pgq.create_roles() is
'Creates the roles pgq_admin and pgq_monitor, and grants them what they need in this database.
pgq_admin may call every function and administer all topics and queues; pgq_monitor sees names and
figures of all of them, and no messages. Grant them to whom you like: grant pgq_monitor to
prometheus. A row says whether a role was created now; one that is there gets the rights, so call it
again after an upgrade, which may bring functions. The caller is the owner of pgq and may create
roles; where he may not, have somebody create them first, or give access with grant_access to
another role and topic or queue *.
Errors: 40001 above READ COMMITTED when another transaction was first (try again), 42501 the caller
may not create roles, or is not the owner of pgq.';
