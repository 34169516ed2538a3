"""A clock that runs faster: months of pgq's time in minutes.

All that pgq counts by (leases, delays, retention, ticks of schedules, when a segment is full) it
reads through ``pgq._clock()``. Here that function is replaced, in the database of the benchmark
alone, by one that runs so many times faster from now on. What pgq measures by the real time has to
be known: one function takes a difference of it from a moment of the clock, and is scaled as well;
the others ask how long something took, or choose at random, and are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchmarks.pgbench import BenchmarkError
from psycopg import Connection

__all__ = ["LEFT_ALONE", "scale_clock"]

REAL = re.compile(
    r"\b(?:clock_timestamp|now|statement_timestamp|transaction_timestamp)\s*\(\s*\)"
    r"|\b(?:current_timestamp|current_time|localtimestamp|current_date)\b"
)

ELAPSED = "clock_timestamp() - now()"
SCALED = "_raise_floor"
"""It counts back to when its transaction began."""

LEFT_ALONE: Mapping[str, str] = {
    "_clock": "is replaced",
    "_found_in": "a tenth of a second, whichever",
    "_check_room": "how long it took to count, and how old that count is",
    "_clean_jobs": "how old the count of a full queue is",
    "_holder_samples": "how long transactions have been open, which the server tells",
    "_hash_position": "a number as good as any",
    "metrics": "how long it took",
    "metrics_text": "how long it took",
}


def scale_clock(connection: Connection[tuple[object, ...]], scale: int) -> None:
    """Let the time of pgq run so many times faster in this database, beginning now."""
    bodies = connection.execute(
        "select proname, prosrc from pg_proc where pronamespace = 'pgq'::regnamespace"
    ).fetchall()
    used = {str(name) for name, body in bodies if REAL.search(_without_comments(str(body)))}
    unknown = used - {SCALED, *LEFT_ALONE}
    if unknown:
        raise BenchmarkError(
            f"{', '.join(sorted(unknown))} reads the real time: is that to be scaled?"
        )
    found = connection.execute(
        "select pg_get_functiondef(p.oid) from pg_proc as p"
        " where p.pronamespace = 'pgq'::regnamespace and p.proname = %s",
        [SCALED],
    ).fetchone()
    definition = str(found[0]) if found else ""
    if definition.count(ELAPSED) != 1:
        raise BenchmarkError(f"{SCALED} does not say {ELAPSED}")
    connection.execute(definition.replace(ELAPSED, f"({ELAPSED}) * {scale}").encode())
    connection.execute(
        f"""
        do $do$
        declare
            begun timestamptz := clock_timestamp();
        begin
            execute format(
                'create or replace function pgq._clock()
                returns timestamptz language sql volatile parallel safe
                as $$ select %L::timestamptz + (clock_timestamp() - %L::timestamptz) * {scale} $$',
                begun, begun
            );
        end
        $do$
        """.encode()
    )


def _without_comments(body: str) -> str:
    return re.sub(r"--[^\n]*", "", body)
