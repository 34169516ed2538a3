"""Describe everything that pgq is in a database, as text with one fact to a line.

Two databases with equal text have the same pgq. ``tests/install/catalog.txt`` is that text for a
fresh install, so that a change to the schema shows in review; run as a program, this writes it.
"""

from __future__ import annotations

import sys
from typing import Any

import psycopg

from build import ROOT
from generated import installed, write

GOLDEN = ROOT / "tests" / "install" / "catalog.txt"

# grants to others than the owner; majors differ in what an owner has
_GRANTS = """
coalesce((
    select string_agg(
        coalesce(r.rolname, 'public') || '=' || lower(x.privilege_type), ' '
        order by coalesce(r.rolname, 'public'), x.privilege_type
    )
    from aclexplode(coalesce({acl}, acldefault('{kind}', {owner}))) as x
    left join pg_roles as r on r.oid = x.grantee
    where x.grantee <> {owner}
), '-')
"""

_FACTS = {
    "schema": f"""
        select format(
            '%s grants %s %s',
            nspname,
            {_GRANTS.format(acl="nspacl", kind="n", owner="nspowner")},
            replace(obj_description(n.oid, 'pg_namespace'), E'\n', ' / ')
        )
        from pg_namespace as n
        where nspname = 'pgq'
    """,
    "function": f"""
        select format(
            '%s(%s) returns %s %s %s%s%s parallel %s set %s grants %s',
            p.proname,
            pg_get_function_arguments(p.oid),
            pg_get_function_result(p.oid),
            l.lanname,
            case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
            case when p.prosecdef then ' security definer' else '' end,
            case when p.proisstrict then ' strict' else '' end,
            p.proparallel,
            coalesce(array_to_string(p.proconfig, ' '), '-'),
            {_GRANTS.format(acl="p.proacl", kind="f", owner="p.proowner")}
        )
        from pg_proc as p
        join pg_language as l on l.oid = p.prolang
        where p.pronamespace = 'pgq'::regnamespace
    """,
    "relation": f"""
        select format(
            '%s kind %s persistence %s options %s partition key %s bound %s grants %s',
            c.relname,
            c.relkind,
            c.relpersistence,
            coalesce(array_to_string(c.reloptions, ' '), '-'),
            coalesce(pg_get_partkeydef(c.oid), '-'),
            coalesce(pg_get_expr(c.relpartbound, c.oid), '-'),
            {_GRANTS.format(acl="c.relacl", kind="r", owner="c.relowner")}
        )
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
        and c.relkind not in ('i', 'I')
    """,
    "replica identity": """
        select c.relname || ' ' || c.relreplident::text
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
        and c.relkind in ('r', 'p')
        and c.relreplident <> 'd'
    """,
    "column": """
        select format(
            '%s.%s %s %s%s%s%s%s%s default %s',
            c.relname,
            to_char(row_number() over (partition by c.oid order by a.attnum), 'FM00'),
            a.attname,
            format_type(a.atttypid, a.atttypmod),
            case when o.collname <> 'default' then ' collate ' || o.collname::text else '' end,
            case when a.attnotnull then ' not null' else '' end,
            case when a.attidentity <> '' then ' identity ' || a.attidentity::text else '' end,
            case when a.attgenerated <> '' then ' generated' else '' end,
            ' storage ' || a.attstorage::text,
            coalesce(pg_get_expr(d.adbin, d.adrelid), '-')
        )
        from pg_attribute as a
        join pg_class as c on c.oid = a.attrelid
        left join pg_collation as o on o.oid = a.attcollation
        left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace = 'pgq'::regnamespace
        and c.relkind not in ('i', 'I', 'S')
        and a.attnum > 0
        and not a.attisdropped
    """,
    "sequence": """
        select format(
            '%s %s start %s increment %s min %s max %s cache %s cycle %s',
            c.relname,
            format_type(s.seqtypid, null),
            s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle
        )
        from pg_sequence as s
        join pg_class as c on c.oid = s.seqrelid
        where c.relnamespace = 'pgq'::regnamespace
    """,
    "constraint": """
        select format(
            '%s %s %s',
            coalesce(c.conrelid::regclass::text, c.contypid::regtype::text),
            c.conname,
            pg_get_constraintdef(c.oid)
        )
        from pg_constraint as c
        where c.connamespace = 'pgq'::regnamespace
        and c.contype <> 'n'
    """,
    "index": """
        select pg_get_indexdef(i.indexrelid)
        from pg_index as i
        join pg_class as c on c.oid = i.indexrelid
        where c.relnamespace = 'pgq'::regnamespace
    """,
    "trigger": """
        select pg_get_triggerdef(t.oid)
        from pg_trigger as t
        join pg_class as c on c.oid = t.tgrelid
        where c.relnamespace = 'pgq'::regnamespace
        and not t.tgisinternal
    """,
    "type": """
        select format(
            '%s %s base %s labels %s',
            t.typname,
            t.typtype,
            case when t.typbasetype = 0 then '-' else format_type(t.typbasetype, t.typtypmod) end,
            coalesce((
                select string_agg(e.enumlabel, ' ' order by e.enumsortorder)
                from pg_enum as e
                where e.enumtypid = t.oid
            ), '-')
        )
        from pg_type as t
        where t.typnamespace = 'pgq'::regnamespace
        and t.typelem = 0
    """,
    "comment": """
        select format('%s: %s', o.identity, replace(d.description, E'\\n', ' / '))
        from pg_description as d
        cross join pg_identify_object(d.classoid, d.objoid, d.objsubid) as o
        where o.schema = 'pgq'
        or o.type in ('composite type', 'table column', 'view column')
        and o.identity like 'pgq.%'
    """,
    "foreign object": """
        select o.type || ' ' || o.identity
        from pg_depend as d
        cross join pg_identify_object(d.classid, d.objid, 0) as o
        where d.refclassid = 'pg_namespace'::regclass
        and d.refobjid = 'pgq'::regnamespace
        and d.classid not in (
            'pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass,
            'pg_constraint'::regclass, 'pg_extension'::regclass
        )
    """,
}

# these differ between majors in their form, or say what the sources say better
_BODIES = {
    "body": """
        select format('%s: %s', p.oid::regprocedure, coalesce(p.prosrc, ''))
        from pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace
    """,
    "view": """
        select format('%s: %s', c.relname, pg_get_viewdef(c.oid))
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
        and c.relkind in ('v', 'm')
    """,
}


def describe(connection: psycopg.Connection[Any], *, bodies: bool = True) -> str:
    """The text; without ``bodies`` it is the same on every major version."""
    lines: list[str] = []
    with connection.transaction():
        connection.execute("set local search_path = pg_catalog")
        for kind, query in {**_FACTS, **(_BODIES if bodies else {})}.items():
            facts = [str(row[0]) for row in connection.execute(query.encode())]
            lines.extend(f"{kind} {fact}" for fact in sorted(facts))
    return "\n".join(lines) + "\n"


def generate() -> str:
    """The text for the sources as they are now."""
    with installed() as connection:
        return describe(connection, bodies=False)


if __name__ == "__main__":
    sys.exit(write(GOLDEN, generate()))
