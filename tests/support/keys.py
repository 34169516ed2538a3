"""What tests of idempotency keys share: a queue and a topic, written to in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.session import Session, new_name, row

__all__ = ["KINDS", "Target", "new_target", "rows_of"]

KINDS = ["queue", "topic"]


class Target:
    """A queue, or a topic of eight partitions, whose payloads are numbers."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name

    def write(
        self, session: Session, key: str | None, number: int = 0, **options: Any
    ) -> tuple[Any, bool]:
        """Enqueue or publish one; what it has become, and whether it is a duplicate."""
        verb = session.enqueue if self.kind == "queue" else session.publish
        given = {} if key is None else {"idempotency_key": key}
        *place, duplicate = verb(**{self.kind: self.name}, payload=number, **given, **options)
        return tuple(place), duplicate

    def write_batch(
        self, session: Session, keys: Sequence[str | None], **options: Any
    ) -> list[Any]:
        """The same with an array, whose payloads are 0, 1, 2 …; the rows of the answer."""
        verb = session.enqueue_batch if self.kind == "queue" else session.publish_batch
        answer: list[Any] = verb(
            **{self.kind: self.name},
            payloads=list(range(len(keys))),
            idempotency_keys=list(keys),
            **options,
        )
        return answer

    def alter(self, session: Session, **settings: Any) -> Any:
        """Change its settings."""
        return session.call(f"alter_{self.kind}", **{self.kind: self.name}, **settings)

    def drop(self, session: Session) -> None:
        """Drop it."""
        session.call(f"drop_{self.kind}", **{self.kind: self.name})

    def create(self, session: Session, **settings: Any) -> Any:
        """Create it."""
        return session.call(f"create_{self.kind}", **{self.kind: self.name}, **settings)

    def stored(self, session: Session) -> list[int]:
        """The payloads that were written, in ascending order."""
        if self.kind == "queue":
            found = session.execute(
                "select m.payload::integer from pgq.message as m"
                " inner join pgq.queue as q using (partition_id) where q.queue = %s order by 1",
                [self.name],
            ).fetchall()
        else:
            found = session.execute(
                "select m.payload::integer from pgq.messages as m where m.topic = %s order by 1",
                [self.name],
            ).fetchall()
        return [payload for (payload,) in found]


def new_target(session: Session, kind: str, **settings: Any) -> Target:
    """A new one of the two."""
    target = Target(kind, new_name(kind))
    target.create(session, **settings)
    return target


def rows_of(session: Session) -> int:
    """How many rows keys have, in all leaves."""
    count: int = row(session, "select count(*) from pgq.idempotency")[0]
    return count
