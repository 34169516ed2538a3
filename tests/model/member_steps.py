"""Steps of the members of groups."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.broker import Broker
from model.drawn import choices, groups, leases, members, partitions, seldom, sizes, steps, topics
from model.topic_steps import TopicSteps
from model.topics import Position
from pgq import OffsetRange

__all__ = ["MemberSteps"]

WHAT_WITH_A_LEASE = st.sampled_from(["commit", "commit", "commit", "extend", "release", "fail"])


class MemberSteps(TopicSteps):
    """Consuming, and where groups stand."""

    @rule(
        member=members,
        topic=topics,
        group=groups,
        size=sizes,
        partition=partitions,
        full=st.booleans(),
        undo=seldom,
        data=st.data(),
    )
    def read(
        self,
        member: int,
        topic: str,
        group: str,
        size: int | None,
        partition: int | None,
        full: bool,
        undo: bool,
        data: st.DataObject,
    ) -> None:
        """Take messages of one partition, in one of three ways."""
        if full:
            self.fill_topic(topic)
        options: dict[str, Any] = {"max_messages": size, "partition": partition, "undo": undo}
        way = data.draw(st.sampled_from(["consume", "claim", "poll", "poll"]))
        if way == "consume":
            self.step(member, "consume", topic, group, **options)
        elif way == "claim":
            taken = self.step(member, "claim_offsets", topic, group, **options)
            if isinstance(taken, OffsetRange):
                place = (taken.partition, taken.first_offset, taken.last_offset)
                assert len(self.step(1 - member, "fetch_range", topic, *place)) == len(taken)
        else:
            got = self.step(member, "poll", topic, group, lease=data.draw(leases), **options)
            if isinstance(got, list) and got:
                self.tokens.append((got[0].lease_token, (topic, group, got[0].partition)))
            if data.draw(st.booleans()):
                what = data.draw(WHAT_WITH_A_LEASE)
                lease = data.draw(leases)
                self.use_partition_lease(member, 0, False, what, data.draw(steps), lease, False)

    @rule(member=members, topic=topics, group=groups, size=sizes, partition=partitions)
    def fetch(
        self, member: int, topic: str, group: str, size: int | None, partition: int | None
    ) -> None:
        self.step(member, "fetch", topic, group, max_messages=size, partition=partition)

    @rule(
        member=members,
        topic=topics,
        partition=st.sampled_from([0, 0, 0, 1, 1, 7]),
        first=st.integers(-1, 12),
        length=st.integers(0, 12),
    )
    def fetch_range(self, member: int, topic: str, partition: int, first: int, length: int) -> None:
        self.step(member, "fetch_range", topic, partition, first, first + length - 1)

    @rule(
        member=members,
        which=choices,
        stale=seldom,
        what=WHAT_WITH_A_LEASE,
        ahead=steps,
        lease=leases,
        undo=seldom,
    )
    def use_partition_lease(
        self,
        member: int,
        which: int,
        stale: bool,
        what: str,
        ahead: int,
        lease: timedelta | None,
        undo: bool,
    ) -> None:
        polled = [(token, place) for token, place in self.tokens if isinstance(place, tuple)][
            :-5:-1
        ]
        if not polled:
            return
        token, (topic, group, partition) = polled[which % len(polled)]
        if stale:
            token = uuid4()
        if what == "commit":
            self.commit(member, topic, group, partition, token, ahead, undo)
        elif what == "extend":
            self.step(member, "extend_poll", topic, group, partition, token, lease=lease, undo=undo)
        elif what == "release":
            self.step(member, "release_poll", topic, group, partition, token, undo=undo)
        else:
            failure = {"lease_token": token, "delay": None, "error": "no"}
            self.step(member, "nack_offsets", topic, group, partition, **failure, undo=undo)

    @rule(
        member=members,
        topic=topics,
        group=groups,
        partition=st.sampled_from([0, 0, 1, 1, 7]),
        ahead=steps,
        undo=seldom,
    )
    def commit_offset(
        self, member: int, topic: str, group: str, partition: int, ahead: int, undo: bool
    ) -> None:
        self.commit(member, topic, group, partition, None, ahead, undo)

    def commit(
        self,
        member: int,
        topic: str,
        group: str,
        partition: int,
        token: UUID | None,
        ahead: int,
        undo: bool,
    ) -> None:
        position = self.position(topic, group, partition)
        last = 0 if position is None else position.lease_last_offset or position.next_offset
        offset = max(0, last + ahead)
        self.step(
            member, "commit_offset", topic, group, partition, offset, lease_token=token, undo=undo
        )

    def position(self, topic: str, group: str, partition: int) -> Position | None:
        known = self.broker.topics.get(topic)
        if known is None or group not in known.groups or partition >= known.partitions:
            return None
        return known.groups[group].positions[partition]

    @rule(member=members, topic=topics, group=groups, undo=seldom, data=st.data())
    def seek(self, member: int, topic: str, group: str, undo: bool, data: st.DataObject) -> None:
        target: dict[str, Any] = data.draw(
            st.one_of(
                st.sampled_from(["earliest", "latest"]).map(lambda start: {"start": start}),
                st.integers(0, 8).map(lambda n: {"log_offset": n}),
                st.integers(-900, 60).map(
                    lambda n: {"published_at": self.broker.now + timedelta(seconds=n)}
                ),
            )
        )
        where = st.sampled_from([0, 1]) if "log_offset" in target else partitions
        self.step(member, "seek", topic, group, partition=data.draw(where), **target, undo=undo)

    @rule(
        topic=topics,
        group=groups,
        sizes=st.tuples(sizes, sizes),
        full=st.booleans(),
        keep=st.booleans(),
        data=st.data(),
    )
    def consume_side_by_side(
        self,
        topic: str,
        group: str,
        sizes: tuple[int | None, int | None],
        full: bool,
        keep: bool,
        data: st.DataObject,
    ) -> None:
        """Another member reads while the transaction of the first is open."""
        if full:
            self.fill_topic(topic)
        calls: list[tuple[str, dict[str, Any]]] = []
        for size in sizes:
            options: dict[str, Any] = {"max_messages": size, "partition": None}
            function = data.draw(st.sampled_from(["consume", "poll", "claim_offsets"]))
            if function == "poll":
                options["lease"] = timedelta(seconds=10)
            calls.append((function, options))
        (first, options), (second, other_options) = calls
        if self.broker.exhausted(topic, group) > 1:
            # two that give up may publish to one partition, and wait for each other
            return
        if self.broker.emptied(topic, group):
            # the first one may note that, and hold it
            return

        def positions(broker: Broker) -> list[Position]:
            known = broker.topics.get(topic)
            return known.groups[group].positions if known and group in known.groups else []

        self.side_by_side(
            keep,
            (first, (topic, group), options),
            (second, (topic, group), other_options),
            lambda before, after: {
                n
                for n, (old, new) in enumerate(
                    zip(positions(before), positions(after), strict=True)
                )
                if old != new
            },
        )
