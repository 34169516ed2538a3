"""What tests of old snapshots share: transactions that see what was, and may have to try again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

__all__ = ["STRICT", "TRY_AGAIN", "answer_of", "old_session", "second_answer_of"]

AnyConnection = psycopg.Connection[Any]
Connect = Callable[..., AnyConnection]

STRICT = ["repeatable read", "serializable"]
TRY_AGAIN = "try again"


def old_session(connect: Connect, level: str) -> AnyConnection:
    """A session above READ COMMITTED whose snapshot is taken."""
    session = connect(isolation_level=level)
    session.execute("select count(*) from pgq.queue")
    return session


def answer_of(session: AnyConnection, work: Callable[[], Any], *also: str) -> Any:
    """What a call and its commit have come to; TRY_AGAIN for 40001, and for codes given."""
    try:
        result = work()
        session.commit()
    except psycopg.Error as error:
        session.rollback()
        if error.sqlstate in ("40001", *also):
            return TRY_AGAIN
        raise
    return result


def second_answer_of(
    session: AnyConnection, work: Callable[[], Any], between: Callable[[], Any] = lambda: None
) -> Any:
    """The same, tried once more after a 40001; ``between`` checks what that has left."""
    answer = answer_of(session, work)
    if answer == TRY_AGAIN:
        between()
        answer = answer_of(session, work)
    return answer
