"""What a database looks like at a moment: sizes, dead rows, ages, catalogs, pgq's own tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psutil
import psycopg

__all__ = ["catalog_figures", "private_memory", "segment_figures", "table_figures"]

Figures = dict[str, float]

MEGABYTE = 1 << 20

# Leaves are taken together: which of them is in use changes all the time.
TABLES = """
select
    regexp_replace(c.relname, '_[0-9]+$', '') as name,
    c.relname ~ '_[0-9]+$' as leaf,
    sum(pg_total_relation_size(c.oid))::float8 as bytes,
    sum(s.n_dead_tup)::float8 as dead
from pg_class as c
inner join pg_stat_all_tables as s on s.relid = c.oid
where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r'
group by 1, 2
"""

CATALOGS = ("pg_class", "pg_attribute", "pg_statistic", "pg_depend", "pg_index", "pg_type")

SEGMENTS = """
with classes as (
    select
        s.state,
        extract(epoch from pgq._clock() - s.closed_at - c.retention) as overdue,
        extract(epoch from pgq._clock() - s.sealed_at) as sealed
    from pgq.segment as s
    inner join pgq.storage_class as c on c.storage_class_id = s.storage_class_id
)

select
    count(*)::float8,
    coalesce(max(overdue) filter (where state = 'closed'), 0)::float8,
    coalesce(max(sealed) filter (where state = 'sealed'), 0)::float8
from classes
"""


def table_figures(connection: psycopg.Connection[Any]) -> Figures:
    """Megabytes and dead rows of each table of pgq, and the rows of those that are no leaves."""
    figures: Figures = {}
    names = []
    total = dead_rows = 0.0
    for name, leaf, size, dead in connection.execute(TABLES):
        what = f"{name}_*" if leaf else name
        figures[f"MB: {what}"] = size / MEGABYTE
        figures[f"dead rows: {what}"] = dead
        total += size
        dead_rows += dead
        if not leaf:
            names.append(name)
    figures["MB: tables of pgq"] = total / MEGABYTE
    figures["dead rows: tables of pgq"] = dead_rows
    counts = ", ".join(f"(select count(*) from pgq.{name})" for name in names)
    row = connection.execute(f"select {counts}".encode()).fetchone()
    if row is None:
        raise RuntimeError("no counts")
    figures |= {f"rows: {name}": float(count) for name, count in zip(names, row, strict=True)}
    [(size,)] = connection.execute("select pg_database_size(current_database())").fetchall()
    figures["MB: database"] = float(size) / MEGABYTE
    return figures


def catalog_figures(connection: psycopg.Connection[Any]) -> Figures:
    """How large the catalogs are, how many rows they have, and how old the oldest ids are."""
    figures: Figures = {}
    for name, size, dead in connection.execute(
        "select relname, pg_total_relation_size(relid)::float8, n_dead_tup::float8"
        " from pg_stat_all_tables where schemaname = 'pg_catalog' and relname = any(%s)",
        [list(CATALOGS)],
    ):
        figures[f"MB: {name}"] = size / MEGABYTE
        figures[f"dead rows: {name}"] = dead
    [(classes, xids, mxids)] = connection.execute(
        "select (select count(*) from pg_class), max(age(relfrozenxid)),"
        " max(mxid_age(relminmxid)) from pg_class where relkind in ('r', 't', 'm')"
    ).fetchall()
    figures["rows: pg_class"] = float(classes)
    figures["age: oldest transaction id"] = float(xids)
    figures["age: oldest multixact"] = float(mxids)
    return figures


def segment_figures(connection: psycopg.Connection[Any], scale: float = 1) -> Figures:
    """How many segments there are, and for how many seconds the oldest of them are overdue."""
    [(count, overdue, sealed)] = connection.execute(SEGMENTS).fetchall()
    return {
        "segments": count,
        "seconds: a segment is due and not given back": max(overdue, 0) / scale,
        "seconds: a segment is sealed and not closed": sealed / scale,
    }


def private_memory(pids: Iterable[int]) -> float:
    """Megabytes of these processes that are not shared with others."""
    total = 0
    for pid in pids:
        try:
            memory = psutil.Process(pid).memory_info()
        except psutil.Error:
            continue
        # what is shared counts where the system does not tell it apart
        total += memory.rss - getattr(memory, "shared", 0)
    return total / MEGABYTE
