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
    grant select on
        pgq.messages,
        pgq.topic_stats,
        pgq.group_lag,
        pgq.queue_stats,
        pgq.dead_letters,
        pgq.archived_jobs,
        pgq.effects
        to pgq_admin;
    grant insert on pgq.publish_rows, pgq.enqueue_rows, pgq.write_chunks to pgq_admin;

    grant execute on function
        pgq.version(),
        pgq.list_topics(),
        pgq.list_groups(text),
        pgq.list_offsets(text, timestamptz),
        pgq.list_queues(),
        pgq.list_subscriptions(),
        pgq.list_workers(interval),
        pgq.metrics(),
        pgq.metrics_text()
        to pgq_monitor;
    grant select on pgq.topic_stats, pgq.group_lag, pgq.queue_stats to pgq_monitor;

    perform pgq.grant_access('pgq_admin', 'admin', topic => '*');
    perform pgq.grant_access('pgq_admin', 'admin', queue => '*');
    perform pgq.grant_access('pgq_monitor', 'monitor', topic => '*');
    perform pgq.grant_access('pgq_monitor', 'monitor', queue => '*');
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
