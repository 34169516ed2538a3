"""What doctor asks the server and its catalog, and of pgq's own tables.

The package has no other SQL than calls of pgq's functions and readings of its views, but for this
module and `pgq.migrate`. Doctor also has to work where there is no pgq, half of one, or another
version, and much that it looks for belongs to the server; so this is not a function of pgq.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row

__all__ = ["Row", "ask"]

Row = dict[str, Any]

_QUERIES = {
    "version": """
        select pgq.version() as version,
            to_regproc('pgq.claim_offsets') is not null as is_ours,
            exists (select from pg_extension where extname = 'pgq') as is_extension
        """,
    "server": """
        select current_user::text as role,
            current_database()::text as database,
            pg_is_in_recovery() as standby,
            pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all,
            has_database_privilege(current_database(), 'create') as may_create,
            to_regnamespace('pgq') is not null as has_schema,
            2 = (
                select count(distinct p.proname)
                from pg_proc as p
                where p.pronamespace = to_regnamespace('pgq')
                    and p.proname in ('version', 'claim_offsets')
            ) as is_ours,
            exists (select from pg_extension where extname = 'pgq') as is_extension,
            (
                select pg_get_userbyid(n.nspowner)
                from pg_namespace as n
                where n.nspname = 'pgq'
            )::text as owner
        """,
    "archived": """
        select a.queue, a.outcome, a.attempt, a.enqueued_at, a.ended_at, a.result, a.last_error,
            a.key, a.label, a.headers, a.payload, a.body
        from pgq.archived_jobs as a
        where a.job_id = %s
        limit 1
        """,
    "sessions": """
        select a.pid,
            a.usename::text as role,
            a.datname::text as database,
            a.application_name as application,
            a.client_addr::text as address,
            a.backend_type,
            a.state,
            a.xact_start as since,
            a.backend_xid is not null as writes,
            a.backend_xmin is not null and a.datname = current_database() as sees,
            a.backend_type = 'walsender' and a.backend_xmin is not null as feeds,
            age(a.backend_xmin) as transactions
        from pg_stat_activity as a
        where a.pid <> pg_backend_pid()
            and (
                a.xact_start < clock_timestamp() - %s::interval
                or a.backend_type = 'walsender' and a.backend_xmin is not null
            )
            and a.backend_type in ('client backend', 'walsender')
        order by a.xact_start
        """,
    "hidden": """
        select count(*) as sessions
        from pg_stat_activity as a
        where a.query = '<insufficient privilege>'
        """,
    "prepared": """
        select p.gid,
            p.prepared as since,
            p.owner::text as role,
            p.database::text as database
        from pg_prepared_xacts as p
        where p.prepared < clock_timestamp() - %s::interval
        order by p.prepared
        """,
    "slots": """
        select s.slot_name::text as slot,
            s.slot_type,
            s.active,
            s.active_pid as pid,
            s.xmin is not null as holds_rows,
            s.wal_status,
            case
                when not pg_is_in_recovery()
                    then pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint
            end as bytes,
            greatest(age(s.xmin), age(s.catalog_xmin)) as transactions
        from pg_replication_slots as s
        order by s.slot_name
        """,
    "settings": """
        select s.name, s.setting, s.unit, s.source
        from pg_settings as s
        where s.name in (
            'autovacuum',
            'default_transaction_isolation',
            'default_transaction_read_only',
            'fsync',
            'full_page_writes',
            'idle_in_transaction_session_timeout',
            'max_connections',
            'max_locks_per_transaction',
            'max_prepared_transactions',
            'statement_timeout',
            'synchronous_commit',
            'track_counts',
            'transaction_timeout'
        )
        """,
    "relations": """
        select count(*) as relations
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p', 'i', 'I')
        """,
    "tables": """
        select t.relname::text as name,
            t.n_live_tup as live,
            t.n_dead_tup as dead,
            coalesce(
                greatest(t.last_autovacuum, t.last_vacuum), t.last_autovacuum, t.last_vacuum
            ) as vacuumed,
            pg_table_size(t.relid) as bytes
        from pg_stat_all_tables as t
        where t.schemaname = 'pgq'
        order by t.n_dead_tup desc
        """,
    "own roles": """
        select r.rolname::text as role
        from pg_roles as r
        where pg_has_role(current_user, r.oid, 'usage')
        """,
    "functions": """
        select p.proname::text as name,
            array(
                select a.name
                from unnest(p.proargnames) with ordinality as a (name, place)
                where a.place <= p.pronargs
                order by a.place
            )::text[] as arguments,
            has_function_privilege(%s::text, p.oid, 'execute') as may,
            p.oid::regprocedure::text as signature
        from pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace and p.proname !~ '^_'
        """,
    "views": """
        select c.relname::text as name,
            has_table_privilege(%s::text, c.oid, 'select') as may
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
            and c.relname in (
                'archived_jobs', 'dead_letters', 'effects', 'group_lag', 'queue_stats',
                'topic_stats'
            )
        """,
    # Views may be granted; functions do the rest with the rights of the owner.
    "table grants": """
        select coalesce(r.rolname::text, 'public') as role,
            array_agg(distinct g.name order by g.name) as names
        from (
            select c.relname::text as name, c.relowner, x.grantee
            from pg_class as c
            cross join aclexplode(c.relacl) as x
            where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p', 'S')
            union all
            select c.relname::text, c.relowner, x.grantee
            from pg_class as c
            inner join pg_attribute as a on a.attrelid = c.oid
            cross join aclexplode(a.attacl) as x
            where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p')
        ) as g
        left join pg_roles as r on r.oid = g.grantee
        where g.grantee <> g.relowner
        group by r.rolname
        order by r.rolname
        """,
    "roles": """
        select r.rolname::text as role
        from pg_roles as r
        """,
    "schema": """
        select has_schema_privilege(%s::text, 'pgq', 'usage') as may
        """,
    "reads": """
        select has_table_privilege('pgq.segment', 'select')
            and has_table_privilege('pgq.storage_class', 'select')
            and has_table_privilege('pgq.group_position', 'select')
            and has_table_privilege('pgq.group_partition', 'select') as may
        """,
    "may see dependents": """
        select coalesce(
            has_function_privilege(to_regprocedure('pgq._dependents(text, bigint)'), 'execute'),
            false
        ) as may
        """,
    "dependents": """
        select distinct d.*, to_regrole(quote_ident(d.made_by)) is null as gone
        from unnest(array['topic', 'queue']) as s
        cross join lateral pgq._dependents(s, null) as d
        order by d.kind, d.name, d.consumer_group
        """,
    # What cleanup would do now, and since when: the conditions of its parts.
    "overdue": """
        select t.task, min(t.due_at) as due_at, count(*) as things
        from (
            select 'segments to seal' as task, s.opened_at + c.retention / 3 as due_at
            from pgq.segment as s
            inner join pgq.storage_class as c on c.storage_class_id = s.storage_class_id
            where s.state = 'open'
            union all
            select 'segments to close', s.sealed_at
            from pgq.segment as s
            where s.state = 'sealed'
            union all
            select 'segments to empty', s.closed_at + c.retention
            from pgq.segment as s
            inner join pgq.storage_class as c on c.storage_class_id = s.storage_class_id
            where s.state = 'closed'
            union all
            -- a journal keeps its last 1000 rows
            select 'journals of positions to trim', p.recorded_at
            from pgq.group_partition as l
            cross join lateral (
                select k.seq
                from pgq.group_position as k
                where k.group_id = l.group_id
                    and k.partition = l.partition
                    and k.seq >= l.trimmed_seq
                order by k.seq
                limit 1
            ) as f
            inner join pgq.group_position as p
                on p.group_id = l.group_id
                and p.partition = l.partition
                and p.seq = f.seq + 1001
        ) as t
        where t.due_at < pgq._clock() - %s::interval
        group by t.task
        order by min(t.due_at)
        """,
    "may see what is ahead": """
        select coalesce(
            has_function_privilege(
                to_regprocedure('pgq._ahead_jobs(timestamptz, interval, bigint)'), 'execute'
            ),
            false
        ) and has_table_privilege('pgq.job', 'select') as may
        """,
    # What repair_clock would change; of each queue and priority, 10000 jobs are looked at.
    "ahead": """
        select a.kind, sum(a.things)::bigint as things
        from (
            select case when j.leased then 'job leases' else 'jobs' end as kind, 1 as things
            from pgq._ahead_jobs(pgq._clock(), '12 hours', 10000) as j
            union all
            select 'jobs', r.jobs
            from pgq._ahead_extents(pgq._clock()) as r
            union all
            select 'group leases', 1
            from pgq._ahead_groups(pgq._clock()) as g
            union all
            select 'schedules', 1
            from pgq._ahead_schedules(pgq._clock()) as s
            union all
            select 'workers', 1
            from pgq.worker as w
            where w.last_seen_at > pgq._clock() + interval '5 seconds'
        ) as a
        group by a.kind
        order by a.kind
        """,
    "clock": """
        select pgq._clock() as moment
        """,
    "server clock": """
        select clock_timestamp() as moment
        """,
}


def ask(
    connection: psycopg.Connection[Any], question: str, arguments: Sequence[Any] = ()
) -> list[Row]:
    """The rows of the answer; the connection is in autocommit."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_QUERIES[question].encode(), arguments or None).fetchall()
