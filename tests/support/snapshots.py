"""What tests of old snapshots share: transactions that see what was, and may have to try again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from support.session import Connect, Session

__all__ = ["LEVELS", "TRY_AGAIN", "answer_of", "old_session", "second_answer_of"]

LEVELS = ["repeatable read", "serializable"]
"""Those above READ COMMITTED, at which a transaction keeps its snapshot."""

TRY_AGAIN = "try again"


def old_session(connect: Connect, level: str) -> Session:
    """A session in a transaction that goes on seeing what is committed now; it holds no locks."""
    session = connect(isolation_level=level)
    session.execute("select 1")
    return session


def answer_of(session: Session, work: Callable[[], Any], *also: str) -> Any:
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
    session: Session, work: Callable[[], Any], between: Callable[[], Any] = lambda: None
) -> Any:
    """The same, tried once more after a 40001; ``between`` checks what that has left."""
    answer = answer_of(session, work)
    if answer == TRY_AGAIN:
        between()
        answer = answer_of(session, work)
    return answer
