"""Who may do what with topics and queues, and which workers have told of themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from psycopg.errors import InsufficientPrivilege

from model.effects import Effects
from pgq import UnknownQueue, UnknownTopic

__all__ = ["MEMBER", "ROLES", "Access"]

ROLES = ("pgq_model_app", "pgq_model_other")
MEMBER = "pgq_model_member"
"""A member of the first of them."""

Target = tuple[str, str]


@dataclass
class Access(Effects):
    """``closed``: the topics and queues that are restricted. ``grants``: target, role, access;
    the name * stands for all. ``beats``: when each worker was seen last, and what it said."""

    closed: set[Target] = field(default_factory=set)
    grants: set[tuple[Target, str, str]] = field(default_factory=set)
    beats: dict[str, tuple[datetime, int]] = field(default_factory=dict)

    def _target(self, topic: str | None, queue: str | None) -> Target:
        if topic is not None:
            if topic != "*" and topic not in self.topics:
                raise UnknownTopic
            return "topic", topic
        assert queue is not None
        if queue != "*" and queue not in self.queues:
            raise UnknownQueue
        return "queue", queue

    def grant_access(
        self,
        got: Any,
        role: str,
        access: str,
        *,
        topic: str | None = None,
        queue: str | None = None,
    ) -> None:
        target = self._target(topic, queue)
        if target[1] != "*":
            self.closed.add(target)
        self.grants.add((target, role, access))
        assert (got.role, got.access, got.topic, got.queue) == (role, access, topic, queue)

    def revoke_access(
        self,
        got: bool,
        role: str,
        access: str | None = None,
        *,
        topic: str | None = None,
        queue: str | None = None,
    ) -> None:
        target = self._target(topic, queue)
        gone = {g for g in self.grants if g[:2] == (target, role) and access in (None, g[2])}
        self.grants -= gone
        assert got is bool(gone)

    def restrict(self, target: Target, restricted: bool) -> None:
        """What alter_topic and alter_queue do with it."""
        if restricted:
            self.closed.add(target)
        elif target in self.closed:
            self._forget_access(target)

    def _forget_access(self, target: Target) -> None:
        self.closed.discard(target)
        self.grants = {grant for grant in self.grants if grant[0] != target}

    def drop_topic(self, got: Any, topic: str) -> None:
        super().drop_topic(got, topic)
        self._forget_access(("topic", topic))

    def drop_queue(self, got: Any, queue: str) -> None:
        super().drop_queue(got, queue)
        self._forget_access(("queue", queue))

    def accesses(self, role: str, target: Target) -> set[str] | None:
        """What a role may do there; None: everything, since it is open."""
        if target not in self.closed:
            return None
        roles = {role, "public"} | ({ROLES[0]} if role == MEMBER else set())
        both = (target, (target[0], "*"))
        return {access for where, who, access in self.grants if where in both and who in roles}

    def refusal(self, role: str, target: Target, access: str) -> type[Exception] | None:
        """The error of a call of that role; None: it is not refused."""
        has = self.accesses(role, target)
        unknown = UnknownTopic if target[0] == "topic" else UnknownQueue
        if target[1] not in (self.topics if target[0] == "topic" else self.queues):
            return unknown
        if has is None or {access, "admin"} & has:
            return None
        return InsufficientPrivilege if has else unknown

    # -- workers -------------------------------------------------------------------------------

    def heartbeat(self, got: Any, worker: str, *, running: int) -> None:
        self.beats[worker] = (self.now, running)

    def delete_worker(self, got: bool, worker: str) -> None:
        assert got is (self.beats.pop(worker, None) is not None)

    def clean_workers(self) -> None:
        """What cleanup does: who was not seen for a day is forgotten."""
        oldest = self.now - timedelta(days=1)
        self.beats = {worker: beat for worker, beat in self.beats.items() if beat[0] >= oldest}
