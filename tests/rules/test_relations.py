"""House rules for tables, views and types, as queries over the catalog."""

from __future__ import annotations

from typing import Any

import psycopg

from support.house import refuse


def test_every_relation_and_type_has_a_comment(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute(
        """
        select c.relkind::text || ' ' || c.relname::text
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
        and c.relkind in ('r', 'p', 'v', 'm', 'c')
        and not c.relispartition
        and coalesce(
            obj_description(c.oid, 'pg_class'), obj_description(c.reltype, 'pg_type')
        ) is null
        """
    ).fetchall()
    refuse(rows)


def test_every_column_of_a_view_or_type_of_the_api_has_a_comment(
    connection: psycopg.Connection[Any],
) -> None:
    rows = connection.execute(
        """
        select c.relname::text || '.' || a.attname::text
        from pg_class as c
        join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace = 'pgq'::regnamespace
        and c.relkind in ('v', 'c')
        and c.relname not like '\\_%'
        and col_description(c.oid, a.attnum) is null
        order by 1
        """
    ).fetchall()
    refuse(rows)


def test_no_table_is_open_to_public(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute(
        """
        select c.relname, x.privilege_type
        from pg_class as c
        cross join aclexplode(
            coalesce(
                c.relacl,
                acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner)
            )
        ) as x
        where c.relnamespace = 'pgq'::regnamespace
        and x.grantee = 0
        """
    ).fetchall()
    refuse(rows)
