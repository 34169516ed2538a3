"""A gate in the way of one session, which stops it in the middle of a statement.

A statement sees what was committed when it began. What happens when others commit while it is
still looking for its rows is a matter of microseconds; the gate makes it last as long as a test
needs. It stands in a trigger, usually on the jobs: the session stops at the first row that it
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from support.session import Session
from support.waiting import blocked

__all__ = ["Gate"]

Result = TypeVar("Result")

_KEY = 203199


class Gate:
    """A gate on a table of one database; the connection is one in autocommit.

    ``event`` is what the session stops at, of which ``each`` is a row or a statement.
    """

    def __init__(
        self,
        connection: Session,
        table: str = "job",
        event: str = "before insert or update or delete",
        each: str = "row",
    ) -> None:
        self.connection = connection
        self.table = table
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
            {event} on pgq.{table}
            for each {each} execute function public.pass_the_gate()
            """
        )

    def remove(self) -> None:
        """Take it away, from a database that is shared."""
        self.connection.execute(
            f"drop trigger pass_the_gate on pgq.{self.table}; drop function public.pass_the_gate()"
        )

    @contextmanager
    def stopping(self, session: Session, work: Callable[[], Result]) -> Iterator[Future[Result]]:
        """Run ``work``, which uses the session, up to its first row; go on behind the block."""
        session.execute("set pgq_test.gate = 'here'")
        self.connection.execute(f"select pg_advisory_lock({_KEY})")
        try:
            yield blocked(self.connection, session, work)
        finally:
            self.connection.execute(f"select pg_advisory_unlock({_KEY})")
