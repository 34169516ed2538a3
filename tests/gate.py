"""A gate in the way of one session, which stops it in the middle of a statement.

A statement sees what was committed when it began. What happens when others commit while it is
still looking for its rows is a matter of microseconds; the gate makes it last as long as a test
needs. It stands in a trigger on the jobs: the session stops at the first row that it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from log_support import aside
from support import backend_pid, wait_until, wait_until_blocked

__all__ = ["Gate", "results", "settled"]

AnyConnection = psycopg.Connection[Any]
Result = TypeVar("Result")

_KEY = 203199


class Gate:
    """A gate on ``pgq.job`` of one database; the connection is one in autocommit."""

    def __init__(self, connection: AnyConnection) -> None:
        self.connection = connection
        connection.execute(
            f"""
            create function public.pass_the_gate()
            returns trigger language plpgsql
            as $$
            begin
                if current_setting('pgq_test.gate', true) = 'here' then
                    perform pg_catalog.pg_advisory_xact_lock({_KEY});
                end if;
                if tg_op = 'DELETE' then
                    return old;
                end if;
                return new;
            end
            $$;
            create trigger pass_the_gate
            before insert or update or delete on pgq.job
            for each row execute function public.pass_the_gate()
            """
        )

    def remove(self) -> None:
        """Take it away, from a database that is shared."""
        self.connection.execute(
            "drop trigger pass_the_gate on pgq.job; drop function public.pass_the_gate()"
        )

    @contextmanager
    def stopping(
        self, session: AnyConnection, work: Callable[[], Result]
    ) -> Iterator[Future[Result]]:
        """Run ``work``, which uses the session, up to its first row; go on behind the block."""
        session.execute("set pgq_test.gate = 'here'")
        self.connection.execute(f"select pg_advisory_lock({_KEY})")
        try:
            future = aside(work)
            wait_until_blocked(self.connection, backend_pid(session))
            yield future
        finally:
            self.connection.execute(f"select pg_advisory_unlock({_KEY})")


def results(*futures: Future[Any]) -> list[Any]:
    """What all of them have come to, once the last one has ended; then the first error, if any.

    Not before: the end of a test closes the connections, and no thread may be using one then.
    """
    wait(futures, 60)
    return [future.result(0) for future in futures]


def settled(observer: AnyConnection, session: AnyConnection, future: Future[Any]) -> None:
    """Return when the work of the session has ended, or waits for a lock."""
    pid = backend_pid(session)

    def still() -> bool:
        row = observer.execute(
            "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s", [pid]
        ).fetchone()
        return future.done() or bool(row and row[0])

    wait_until(still, 30, "for a session to end its work or to wait")
