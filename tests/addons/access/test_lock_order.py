"""Access is locked before what a topic or a queue is stored in, whichever call begins."""

from __future__ import annotations

import pytest

from support.session import Connect, Session
from support.waiting import PATIENCE, blocked


@pytest.mark.parametrize("kind", ["topic", "queue"])
def test_creating_and_altering_do_not_deadlock(
    connection: Session, connect: Connect, kind: str
) -> None:
    getattr(connection, f"create_{kind}")(**{kind: "old"})
    altering, creating = connect(), connect()
    alter = getattr(altering, f"alter_{kind}")
    create = getattr(creating, f"create_{kind}")
    alter(**{kind: "old"}, restricted=True)
    created = blocked(
        connection, creating, lambda: create(**{kind: "new"}, restricted=True, retention="9 hours")
    )
    alter(**{kind: "old"}, retention="8 hours")
    altering.commit()
    created.result(PATIENCE)
    creating.commit()
