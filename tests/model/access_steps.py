"""Steps that give and take access, and what roles can do then; and workers' heartbeats."""

from __future__ import annotations

from typing import Any

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from psycopg import sql

from model.access import MEMBER, ROLES
from model.drawn import QUEUES, TOPICS, limited, members, queues, seldom, topics
from model.looking import Looking
from pgq import UnknownQueue, UnknownTopic
from support.client import method

__all__ = ["AccessLives"]

targets = st.sampled_from(
    [*(("topic", name) for name in (*TOPICS, "*")), *(("queue", name) for name in (*QUEUES, "*"))]
)
granted = st.sampled_from([*ROLES, "public"])
accesses = st.sampled_from(["publish", "consume", "monitor", "admin"])
workers = st.sampled_from(["anna", "bert"])

CALLS = {
    ("topic", "publish"): ("publish", {"payload": 1}),
    ("topic", "consume"): ("list_offsets", {}),
    ("queue", "publish"): ("enqueue", {"payload": 1}),
    ("queue", "consume"): ("peek_jobs", {}),
}
NEEDED = {"publish": "publish", "list_offsets": "monitor", "enqueue": "publish"}


class AccessLives(Looking):
    """Grants, and roles that try what they may: alone, since others would rarely let them meet."""

    @initialize()
    def begin(self) -> None:
        for name in TOPICS:
            self.turn_topic(0, name)
        for name in QUEUES:
            self.turn_queue(0, name)

    @rule(member=members, name=topics)
    def turn_topic(self, member: int, name: str) -> None:
        """Make it, or drop it."""
        if name in self.broker.topics:
            self.step(member, "drop_topic", name)
        else:
            self.step(member, "create_topic", name, partitions=2, **limited(retention=None))

    @rule(member=members, name=queues)
    def turn_queue(self, member: int, name: str) -> None:
        if name in self.broker.queues:
            self.step(member, "drop_queue", name)
        else:
            options = limited(max_attempts=3, job_ttl=None, retention=None)
            self.step(member, "create_queue", name, **options)

    @rule(member=members, name=topics, queue=queues)
    def make_anew(self, member: int, name: str, queue: str) -> None:
        """What was closed is open then."""
        for turn, which in ((self.turn_topic, name), (self.turn_queue, queue)):
            turn(member, which)
            turn(member, which)

    @rule(member=members, hours=st.sampled_from([1, 13, 25]), undo=seldom)
    def let_hours_pass(self, member: int, hours: int, undo: bool) -> None:
        self.move_clock(hours * 3600)
        self.step(member, "cleanup", undo=undo)

    @rule(member=members, place=targets, role=granted, access=accesses, undo=seldom)
    def grant(
        self, member: int, place: tuple[str, str], role: str, access: str, undo: bool
    ) -> None:
        what, name = place
        self.step(member, "grant_access", role, access, undo=undo, **{what: name})

    @rule(
        member=members,
        place=targets,
        role=granted,
        access=st.one_of(st.none(), accesses),
        undo=seldom,
    )
    def revoke(
        self, member: int, place: tuple[str, str], role: str, access: str | None, undo: bool
    ) -> None:
        what, name = place
        self.step(member, "revoke_access", role, access, undo=undo, **{what: name})

    @rule(member=members, place=targets, restricted=st.booleans())
    def restrict(self, member: int, place: tuple[str, str], restricted: bool) -> None:
        what, name = place
        known = self.broker.topics if what == "topic" else self.broker.queues
        if name in known:
            method(self.run.clients[member], f"alter_{what}")(name, restricted=restricted)
            self.broker.restrict(place, restricted)

    @precondition(lambda self: self.broker.closed)
    @rule(
        member=members,
        place=targets.filter(lambda target: target[1] != "*"),
        role=st.sampled_from([*ROLES, MEMBER]),
        way=st.sampled_from(["publish", "consume"]),
    )
    def try_as(self, member: int, place: tuple[str, str], role: str, way: str) -> None:
        """A role calls, in a transaction that is rolled back."""
        what, name = place
        function, options = CALLS[what, way]
        expected = self.broker.refusal(role, place, NEEDED.get(function, "consume"))
        got = self._as(member, role, function, name, **options)
        refused = got if got in (UnknownTopic, UnknownQueue) else None
        if isinstance(got, type) and issubclass(got, psycopg.errors.InsufficientPrivilege):
            refused = psycopg.errors.InsufficientPrivilege
        assert refused is expected, f"{function} of {name} by {role}: {got}, not {expected}"

    def _as(self, member: int, role: str, function: str, name: str, **options: Any) -> Any:
        connection = self.run.connections[member]
        connection.execute("begin")
        try:
            connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
            return method(self.run.clients[member], function)(name, **options)
        except psycopg.Error as error:
            return type(error)
        finally:
            connection.execute("rollback")

    @precondition(lambda self: self.broker.closed)
    @rule(member=members, role=st.sampled_from([*ROLES, MEMBER]))
    def look_as(self, member: int, role: str) -> None:
        """Lists show a role what it has any access to."""
        connection = self.run.connections[member]
        connection.execute("begin")
        connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        client = self.run.clients[member]
        shown = {
            *(("topic", topic.topic) for topic in client.admin.list_topics()),
            *(("queue", queue.queue) for queue in client.admin.list_queues()),
        }
        connection.execute("rollback")
        expected = {
            target
            for target in (
                *(("topic", name) for name in self.broker.topics),
                *(("queue", name) for name in self.broker.queues),
            )
            if self.broker.accesses(role, target) != set()
        }
        assert shown == expected

    # -- workers -------------------------------------------------------------------------------

    @rule(member=members, worker=workers, running=st.integers(0, 9), undo=seldom)
    def beat(self, member: int, worker: str, running: int, undo: bool) -> None:
        self.step(member, "heartbeat", worker, running=running, undo=undo)

    @rule(member=members, worker=workers, undo=seldom)
    def forget(self, member: int, worker: str, undo: bool) -> None:
        self.step(member, "delete_worker", worker, undo=undo)

    @invariant()
    def workers_are_known(self) -> None:
        listed = self.run.clients[1].monitor.list_workers()
        assert {w.worker: (w.last_seen_at, w.running) for w in listed} == self.broker.beats
