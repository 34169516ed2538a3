"""Steps of groups whose members fail, until messages go to a dead-letter topic."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.drawn import choices, groups, members, other_topic, partitions, seldom, topics
from model.member_steps import MemberSteps

__all__ = ["FailingSteps"]

delays = st.sampled_from([None, None, None, timedelta(0), timedelta(seconds=10)])
errors = st.sampled_from([None, "no", "no use"])
few = st.sampled_from([1, 2, 3, 100, None])


class FailingSteps(MemberSteps):
    """Failures, and settings that change meanwhile."""

    @rule(
        member=members,
        topic=topics,
        group=groups,
        size=few,
        limit=st.sampled_from([None, None, 1, 2, 3]),
        full=st.booleans(),
        data=st.data(),
    )
    def fail_again_and_again(
        self,
        member: int,
        topic: str,
        group: str,
        size: int | None,
        limit: int | None,
        full: bool,
        data: st.DataObject,
    ) -> None:
        """Batches fail or are lost, are done in part, or given back, until some are given up."""
        if full:
            self.fill_topic(topic)
        if limit is not None:
            letters_to = {"max_attempts": limit, "dead_letter_topic": other_topic(topic)}
            self.step(member, "alter_group", topic, group, out_of_range=None, **letters_to)
        for _ in range(data.draw(st.integers(2, 8))):
            what = data.draw(
                st.sampled_from(["fail", "fail", "fail", "fail", "lose", "part", "undo", "release"])
            )
            again = data.draw(st.sampled_from([size, size, size, 1, 100]))
            options: dict[str, Any] = {"max_messages": again, "partition": None}
            if what == "undo":
                options["partition"] = data.draw(partitions)
                self.fail_what_is_undone(member, topic, group, options, data)
                continue
            got = self.step(member, "poll", topic, group, lease=None, **options)
            if what == "lose":
                self.move_clock(30)
            if not isinstance(got, list) or not got or what == "lose":
                continue
            place = (topic, group, got[0].partition)
            self.tokens.append((got[0].lease_token, place))
            held = {"lease_token": got[0].lease_token}
            if what == "release":
                self.step(member, "release_poll", *place, got[0].lease_token)
                continue
            if what == "part":
                self.step(member, "commit_offset", *place, got[0].log_offset, **held)
            failure = {"delay": data.draw(delays), "error": data.draw(errors)}
            self.step(member, "nack_offsets", *place, **held, **failure)

    def fail_what_is_undone(
        self, member: int, topic: str, group: str, options: dict[str, Any], data: st.DataObject
    ) -> None:
        """What `consume` gave leaves no trace after a rollback; so that is reported."""
        with self.transaction(member, True):
            got = self.ask(member, "consume", topic, group, **options)
        self.check(copy.deepcopy(self.broker), "consume", got, topic, group, **options)
        failure = {"delay": data.draw(delays), "error": data.draw(errors)}
        ahead = data.draw(st.sampled_from([0, 0, 0, 0, -1, 1]))
        if isinstance(got, list) and got:
            span = {"first_offset": got[0].log_offset, "last_offset": got[-1].log_offset + ahead}
            self.step(member, "nack_offsets", topic, group, got[0].partition, **span, **failure)

    @rule(
        member=members,
        which=choices,
        topic=topics,
        group=groups,
        ends=st.tuples(st.integers(0, 9), st.sampled_from([None, 0, 0, 1, 3, -1])),
        odd=seldom,
        undo=seldom,
        delay=delays,
        error=errors,
    )
    def nack(
        self,
        member: int,
        which: int,
        topic: str,
        group: str,
        ends: tuple[int, int | None],
        odd: bool,
        undo: bool,
        delay: timedelta | None,
        error: str | None,
    ) -> None:
        """By a token that may be old or wrong, or by offsets that may be anywhere."""
        polled = [(token, place) for token, place in self.tokens if isinstance(place, tuple)]
        named: dict[str, Any] = {}
        place = (topic, group, which % 3)
        if which % 2 and polled:
            named["lease_token"], place = polled[-1 - which % min(len(polled), 4)]
            if odd:
                named["lease_token"] = uuid4()
        else:
            first, length = ends
            position = self.position(*place)
            if position is not None and first > 3:
                first = position.next_offset
            named = {"first_offset": first}
            if length is not None:
                named["last_offset"] = first + length
            if odd:
                named["lease_token"] = uuid4()
        self.step(member, "nack_offsets", *place, **named, delay=delay, error=error, undo=undo)
