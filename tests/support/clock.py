"""The time by which pgq counts, which a test may move."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import psycopg
from psycopg import sql

__all__ = ["Clock"]


@dataclass(frozen=True)
class Clock:
    """The time by which pgq counts in one database; :meth:`advance` moves it for all sessions.

    The offset is kept in a sequence, so moving it is seen at once by every transaction, whatever
    its snapshot, and is not rolled back.
    """

    dsn: str

    def install(self) -> None:
        """Make ``pgq._clock()`` read the offset."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute(
                """
                create sequence public.clock_offset as bigint minvalue -9223372036854775808;
                select setval('public.clock_offset', 0);
                grant select on public.clock_offset to public;
                create or replace function pgq._clock()
                returns timestamptz language sql volatile parallel safe
                as $$
                select clock_timestamp() + '1 microsecond'::interval
                    * pg_sequence_last_value('public.clock_offset')
                $$
                """
            )

    def advance(self, by: str | timedelta) -> None:
        """Move the clock ahead, or back with a negative interval."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                sql.SQL(
                    "select setval('public.clock_offset', (select last_value"
                    " + (extract(epoch from {}::interval) * 1e6)::bigint from public.clock_offset))"
                ).format(sql.Literal(by))
            )

    def set_to(self, moment: str) -> None:
        """Let it be this time now; it goes on from there."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                sql.SQL(
                    "select setval('public.clock_offset', (extract(epoch from"
                    " {}::timestamptz - clock_timestamp()) * 1e6)::bigint)"
                ).format(sql.Literal(moment))
            )

    def set_ahead(self, seconds: float) -> None:
        """Let it be so far ahead of the real time."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                "select setval('public.clock_offset', %s)", [round(seconds * 1_000_000)]
            )

    def reset(self) -> None:
        """Return to the real time."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("select setval('public.clock_offset', 0)")
