"""What tests of a failing cleanup share: an object for which it raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support.clock import Clock
from support.session import Session

__all__ = ["cleaned", "failing", "failures", "ids", "many_queues", "raising"]


@contextmanager
def failing(session: Session, event: str, when: str, said: str = "secret") -> Iterator[None]:
    """A trigger for each row, of a table that is named last, raises 22P02 where this is true."""
    table = event.split()[-1]
    session.execute(
        "create function public.pgq_test_raise() returns trigger language plpgsql as $$ begin"
        f" raise exception using errcode = '22P02', message = '{said}'; end $$".encode()
    )
    session.execute(
        f"create trigger pgq_test_raise before {event} for each row when ({when})"
        " execute function public.pgq_test_raise()".encode()
    )
    try:
        yield
    finally:
        session.execute(f"drop trigger pgq_test_raise on {table}".encode())
        session.execute("drop function public.pgq_test_raise()")


def ids(session: Session, query: str) -> list[int]:
    """The ids that a query finds, in its order."""
    return [found for (found,) in session.execute(query.encode()).fetchall()]


def many_queues(session: Session, clock: Clock, number: int) -> list[int]:
    """Each with an expired job."""
    session.execute(
        "select count(*) from generate_series(1, %s) as n,"
        " pgq.create_queue('q' || n, job_ttl => '1 hour') as q, pgq.enqueue(q.queue, '1') as e",
        [number],
    )
    clock.advance("1 day")
    return ids(session, "select queue_id from pgq.queue order by queue_id")


def cleaned(session: Session) -> list[tuple[str, str]]:
    """Actions and targets of one cleanup."""
    return [(action, target) for action, target, _ in session.cleanup()]


def failures(session: Session) -> list[tuple[str, str | None, str]]:
    """What cleanup cannot do: part, target and code."""
    return [(each.part, each.target, each.error_code) for each in session.list_cleanup_failures()]


def raising(session: Session, code: str) -> None:
    """What fails, see ``failing``, fails with this code."""
    session.execute(
        "create or replace function public.pgq_test_raise() returns trigger language plpgsql"
        f" as $$ begin raise exception 'full' using errcode = '{code}'; end $$".encode()
    )
