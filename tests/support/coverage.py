"""Which statements of PL/pgSQL the tests of a run execute, where ``PGQ_COVERAGE`` names a folder.

The profiler of plpgsql_check counts them in the memory of each test's server; what it has counted
in a database is added to a file of this process before the database is dropped.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import psycopg

__all__ = ["SETTINGS", "collect"]

_FOLDER = os.environ.get("PGQ_COVERAGE")

SETTINGS = (
    {
        "shared_preload_libraries": "plpgsql_check",
        "plpgsql_check.profiler": "on",
        "plpgsql_check.profiler_max_shared_chunks": "50000",
    }
    if _FOLDER
    else {}
)
"""What a server needs to count."""


def collect(dsn: str) -> None:
    """Add what was executed in a database."""
    if not _FOLDER:
        return
    # a test may have left the database in any state
    with suppress(psycopg.Error), psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create extension if not exists plpgsql_check")
        found = connection.execute(
            """
            select p.proname, array_agg(distinct t.stmt_lineno)
            from plpgsql_profiler_functions_all() as f
            inner join pg_proc as p on p.oid = f.funcoid
            cross join plpgsql_profiler_function_tb(p.oid) as t
            where p.pronamespace = 'pgq'::regnamespace and t.exec_stmts > 0
            group by p.proname
            """
        ).fetchall()
        # of this database alone: others of the server are still in use
        connection.execute(
            "select plpgsql_profiler_reset(f.funcoid) from plpgsql_profiler_functions_all() as f"
        )
        worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
        with (Path(_FOLDER) / f"{worker}.jsonl").open("a") as file:
            file.write(json.dumps(dict(found)) + "\n")
