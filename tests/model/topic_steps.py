"""Steps with topics, groups and publishers."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.drawn import (
    GROUPS,
    KEYS,
    dead_letters,
    groups,
    late,
    letters_of,
    limited,
    lives,
    members,
    once,
    partitions,
    seldom,
    topics,
)
from model.machine import Machine

__all__ = ["TopicSteps"]


class TopicSteps(Machine):
    """Settings and publishing."""

    @rule(member=members, topic=topics, group=groups, undo=seldom, data=st.data())
    def rearrange_topics(
        self, member: int, topic: str, group: str, undo: bool, data: st.DataObject
    ) -> None:
        what = data.draw(
            st.sampled_from(
                ["group", "drop group", "alter group", "create", "alter", "alter", "drop topic"]
            )
        )
        count = data.draw(st.sampled_from([1, 2, 3]))
        keep = data.draw(lives)
        skip = data.draw(st.sampled_from(["error", "skip", None]))
        letters = letters_of(topic, data.draw(dead_letters))
        if what == "group":
            self.step(
                member,
                "create_group",
                topic,
                group,
                start=data.draw(st.sampled_from(["earliest", "latest", None])),
                out_of_range=skip,
                **letters,
                undo=undo,
            )
        elif what == "drop group":
            self.step(member, "drop_group", topic, group, undo=undo)
        elif what == "alter group":
            lift = data.draw(st.sampled_from([None, [], ["max_attempts"], ["out_of_range"]]))
            settings = {"out_of_range": skip, **letters, "no_limit": lift}
            self.step(member, "alter_group", topic, group, **settings, undo=undo)
        elif what == "create":
            given: dict[str, Any] = limited(retention=keep) if data.draw(st.booleans()) else {}
            # a new one shall not have the eight partitions of the default
            if topic not in self.broker.topics or data.draw(st.booleans()):
                given["partitions"] = count
                given["deferred"] = data.draw(late)
            self.step(member, "create_topic", topic, **given, undo=undo)
        elif what == "alter":
            known = self.broker.topics.get(topic)
            more = min(known.partitions + 1, 4) if known and data.draw(seldom) else None
            if known and known.retention is None:
                keep = None  # what has stored without a retention does not get one
            self.step(
                member, "alter_topic", topic, partitions=more, **limited(retention=keep), undo=undo
            )
        else:
            self.step(member, "drop_topic", topic, undo=undo)
            if topic not in self.broker.topics:
                given = {
                    "partitions": count,
                    "deferred": data.draw(late),
                    **limited(retention=keep),
                }
                self.step(member, "create_topic", topic, **given)
        for name in GROUPS if topic in self.broker.topics else ():
            if name not in self.broker.topics[topic].groups and data.draw(st.booleans()):
                self.step(member, "create_group", topic, name, start=None, out_of_range=skip)

    # -- deferred topics -----------------------------------------------------------------------

    @rule(member=members, topic=topics, partition=partitions, full=st.booleans(), undo=seldom)
    def assign_offsets(
        self, member: int, topic: str, partition: int | None, full: bool, undo: bool
    ) -> None:
        if full:
            self.fill_topic(topic)
        options = {"partition": partition}
        extra = {**options, "before": self.run.tips(member)}
        self.step(member, "assign_offsets", topic, **options, undo=undo, extra=extra)

    # -- publishing ----------------------------------------------------------------------------

    @rule(
        member=members,
        topic=topics,
        keys=st.lists(st.sampled_from([None, *KEYS]), max_size=12),
        keyed=st.booleans(),
        partition=partitions,
        alone=st.booleans(),
        undo=seldom,
        once=once,
    )
    def publish(
        self,
        member: int,
        topic: str,
        keys: list[str | None],
        keyed: bool,
        partition: int | None,
        alone: bool,
        undo: bool,
        once: str | None = None,
    ) -> None:
        options: dict[str, Any] = {"partition": partition}
        if alone:
            options["idempotency_key"] = once
            content = self.content(keys[0] if keys else None)
            given, model = vars(content), (topic, content)
        else:
            contents, given = self.batch(keys, keyed)
            model = (topic, contents)
        self.step(
            member,
            "publish" if alone else "publish_batch",
            topic,
            **given,
            **options,
            undo=undo,
            model=model,
            extra=options,
        )

    def fill_topic(self, topic: str) -> None:
        """So that there is something to read."""
        self.publish(0, topic, [*KEYS, None], True, None, False, False)

    @rule(topic=topics, keep=st.booleans())
    def publish_side_by_side(self, topic: str, keep: bool) -> None:
        """Two publishers without keys do not wait for each other."""
        known = self.broker.topics.get(topic)
        if known is None or known.partitions < 2 or known.deferred:
            return
        contents = [self.content(), self.content()]
        broker = copy.deepcopy(self.broker)
        connection = self.run.connections[0]
        connection.execute("begin")
        try:
            got = self.ask(0, "publish", topic, **vars(contents[0]))
            self.check(broker, "publish", got, topic, contents[0], partition=None)
            seen = self.seen
            other = self.ask(1, "publish", topic, **vars(contents[1]))
            self.check(
                self.broker,
                "publish",
                other,
                topic,
                contents[1],
                partition=None,
                held={got.partition},
            )
        finally:
            connection.execute("commit" if keep else "rollback")
        if keep:
            self.seen = seen
            self.check(self.broker, "publish", got, topic, contents[0], partition=None)
