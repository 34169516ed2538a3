"""What consumer groups are promised: each message once, in order, and positions that hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from explorer.check_log import Topic, number_of
from explorer.database import Link
from explorer.history import Event, History, Transaction
from explorer.script import written

__all__ = ["check_groups"]

MOVING = (
    "consume",
    "claim_offsets",
    "poll",
    "commit_offset",
    "seek",
    "release_poll",
    "extend_poll",
    "fill_journal",
)
SLACK = 20
"""Seconds by which a lease may seem to end earlier than it does."""

LONG_LEASE = {"10 minutes": 600, "1 hour": 3600, "1 minute": 60}


@dataclass
class Lease:
    token: str
    until: int
    last_offset: int


@dataclass
class Position:
    """Where a group stands in a partition by what was answered; ``at`` is None when unknown."""

    topic: Topic
    name: str
    partition: int
    skips: bool
    created: Event
    at: int | None = None
    lost_track: bool = False
    lease: Lease | None = None
    wrong: list[tuple[str, str]] = field(default_factory=list)
    begin: int | None = None
    past: list[tuple[int, Transaction, int | None]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.topic.name}/{self.partition} group {self.name}"

    def __post_init__(self) -> None:
        if self.created.arguments.get("start", "earliest") == "earliest":
            self._at_the_start()
        self.begin = self.at

    def _at_the_start(self) -> None:
        self.at = 1 if self.topic.first[self.partition] == 1 else None

    def apply(self, event: Event) -> None:
        """Move on by what a committed call was answered."""
        stood = self.at, self.lease
        if event.call in ("consume", "claim_offsets", "poll"):
            self._claimed(event)
        elif event.call == "commit_offset":
            self._committed(event)
        elif event.call == "seek":
            for row in event.rows:
                if row["partition"] == self.partition:
                    self.at, self.lease = row["position"], None
        elif event.call == "fill_journal":
            self.lease = None
            if event.rows[0]["fill_journal"] == "earliest":
                self._at_the_start()
        elif event.call == "release_poll":
            if event.rows[0]["release_poll"]:
                self.lease = None
        elif event.rows[0]["extend_poll"] and self.lease is not None:
            self.lease.until = max(self.lease.until, self._lease_until(event))
        if (self.at, self.lease) != stood:
            self.past.append((event.transaction.ended, event.transaction, self.at))

    def _seen_by(self, transaction: Transaction) -> int | None:
        """Where its snapshot shows the group; what it did itself it has always before it."""
        if transaction.level in (None, "read committed"):
            return self.at
        if self.past and self.past[-1][1] is transaction:
            return self.at
        before = [at for ended, _, at in self.past if ended <= transaction.started]
        return before[-1] if before else self.begin

    def _lease_until(self, event: Event) -> int:
        least, _ = self.topic.history.clock(event.started, event.ended)
        return least + LONG_LEASE[event.arguments["lease"]] - SLACK

    def _claimed(self, event: Event) -> None:
        rows = [row for row in event.rows if row["partition"] == self.partition]
        if not rows:
            return
        if event.call == "claim_offsets":
            first, last = rows[0]["first_offset"], rows[0]["last_offset"]
        else:
            offsets = [row["log_offset"] for row in rows]
            first, last = offsets[0], offsets[-1]
            if offsets != list(range(first, last + 1)):
                self.wrong.append(("gap", f"{self}: {event.statement} gave {offsets}"))
            for row in rows:
                self._content(row["log_offset"], number_of(row), event.statement)
        if self.lease is not None:
            _, most = self.topic.history.clock(event.started, event.ended)
            if most < self.lease.until:
                self.wrong.append(("two leases", f"{self}: {event.statement} took what was leased"))
        self.starts(first, event.statement)
        self.lease = None
        if event.call == "poll":
            self.at = first
            self.lease = Lease(rows[0]["lease_token"], self._lease_until(event), last)
        else:
            self.at = last + 1

    def starts(self, first: int, told: str) -> None:
        """Whether it may be given this offset next."""
        if self.at is not None and first < self.at:
            self.wrong.append(
                ("range given out twice", f"{self}: {told} gave {first}, it stood at {self.at}")
            )
        if self.at is None and self.lost_track:
            return
        first_due = self.at or 1
        for log_offset in range(first_due, first):
            published = self.topic.at.get((self.partition, log_offset))
            if published is None or self.topic.may_be_gone(published):
                continue
            if (
                self.at is None
                and self.created.arguments.get("start") == "latest"
                and published.event.transaction.ended <= self.created.transaction.ended
            ):
                continue
            self.wrong.append(
                ("skipped", f"{self}: {told} gave {first}, it stood at {self.at or 'the start'}")
            )
            break
        else:
            if self.at is not None and first > self.at and not self.skips:
                self.wrong.append(
                    ("skipped", f"{self}: {told} gave {first}, it stood at {self.at}")
                )

    def check_fetched(self, history: History) -> None:
        """What fetch gave begins where the group stood when it looked."""
        for event in history.events("fetch"):
            named = (event.arguments["topic"], event.arguments["consumer_group"])
            if named != (self.topic.name, self.name) or self.topic.cut is not None:
                continue
            offsets = [r["log_offset"] for r in event.rows if r["partition"] == self.partition]
            own = {e.call for e in event.transaction.events if e.index < event.index}
            if not offsets or own & set(MOVING) or event.order < self.created.order:
                continue
            old = event.transaction.level not in (None, "read committed")
            looked = event.transaction.started if old else event.started
            before = [at for ended, _, at in self.past if ended <= looked]
            stood = [before[-1] if before else self.begin]
            stood += [at for ended, _, at in self.past if looked < ended <= event.ended]
            if None in stood or offsets[0] in stood:
                continue
            if not self.skips or offsets[0] < min(at for at in stood if at is not None):
                text = f"{self}: {event.statement} gave {offsets}, it stood at {stood}"
                self.wrong.append(("gap", text))

    def _content(self, log_offset: int, number: int | None, told: str) -> None:
        published = self.topic.at.get((self.partition, log_offset))
        if published is not None and published.number != number:
            self.wrong.append(
                (
                    "wrong content",
                    f"{self}: {told}: {number} at {log_offset}, not {published.number}",
                )
            )

    def _committed(self, event: Event) -> None:
        answered = event.rows[0]["commit_offset"]
        asked = event.arguments["committed_offset"]
        seen = self._seen_by(event.transaction)
        if seen is None and event.transaction.level not in (None, "read committed"):
            # what it changed, if anything, cannot be told
            self.at, self.lost_track = None, True
            return
        if seen is not None and asked < seen:
            # It changes nothing, so it may have happened when its snapshot was taken.
            if answered != seen - 1:
                told = f"{self}: {event.statement} answered {answered}, it was at {seen}"
                self.wrong.append(("no effect", told))
            return
        if self.at is not None and answered != max(asked, self.at - 1):
            self.wrong.append(
                ("no effect", f"{self}: {event.statement} answered {answered}, it was at {self.at}")
            )
        if self.at is None or asked >= self.at:
            token = event.arguments.get("lease_token")
            if self.lease is None or token is None or asked >= self.lease.last_offset:
                self.lease = None
        self.at = answered + 1


def check_groups(topics: list[Topic], history: History, link: Link) -> None:
    """Replay every group, and drain it: what is left is what it had not been given."""
    _check_fetched(topics, history)
    for topic in topics:
        for row in link.rows(f"select * from pgq.list_groups('{topic.name}')"):
            _check_group(topic, row["consumer_group"], row["out_of_range"] == "error", link)


def _check_group(topic: Topic, name: str, fails: bool, link: Link) -> None:
    history = topic.history
    mine = [e for e in topic.since_cut() if e.arguments.get("consumer_group") == name]
    dropped = max((e.order for e in mine if e.call == "drop_group"), default=(-1, 0, 0, 0))
    mine = [event for event in mine if event.order > dropped]
    created = next((event for event in mine if event.call == "create_group"), None)
    if created is None:
        history.violate("ghost", f"group {name} of {topic.name} was never committed")
        return
    # it may have skipped while it was told to, and been altered since
    skips = any(
        event.rows[0]["out_of_range"] == "skip"
        for event in mine
        if event.call in ("create_group", "alter_group")
    )
    for partition in topic.last:
        moving = [e for e in mine if e.call in MOVING and _concerns(e, partition)]
        positions = []
        for order in itertools.islice(_orders(moving), 50):
            position = Position(topic, name, partition, skips, created)
            for event in order:
                position.apply(event)
            position.check_fetched(history)
            positions.append(position)
            if not position.wrong:
                break
        position = positions[-1] if not positions[-1].wrong else positions[0]
        _drain(position, fails, link)
        for kind, text in position.wrong:
            history.violate(kind, text)


def _concerns(event: Event, partition: int) -> bool:
    named = event.arguments.get("partition")
    return named is None or named == partition


def _orders(events: list[Event]) -> Iterator[list[Event]]:
    """All orders in which the events may have happened: some ended too close to be told apart."""
    runs = []
    for when, run in itertools.groupby(events, key=lambda e: e.order[:2]):
        together = [
            list(own) for _, own in itertools.groupby(run, key=lambda e: e.transaction.number)
        ]
        runs.append(list(itertools.permutations(together)) if when[1] else [tuple(together)])
    for choice in itertools.product(*runs):
        yield [event for together in choice for own in together for event in own]


def _drain(position: Position, fails: bool, link: Link) -> None:
    topic = position.topic
    partition = position.partition
    last = topic.last[partition]
    member = f"{written(topic.name)}, {written(position.name)}"
    for _ in range(20):
        answer = link.ask(f"select * from pgq.consume({member}, 1000, {partition})")
        if answer.code == "MQ004" and fails:
            first = topic.first[partition]
            at = position.at or 1
            if at >= first:
                position.wrong.append(("raw error", f"{position} at {at}: {answer}"))
                return
            fails, position.skips = False, True
            link.rows(f"select * from pgq.seek({member}, {partition}, start => 'earliest')")
            continue
        if answer.code is not None:
            position.wrong.append(("raw error", f"draining {position}: {answer}"))
            return
        if not answer.rows:
            break
        offsets = [row["log_offset"] for row in answer.rows]
        position.starts(offsets[0], "the drain")
        if offsets != list(range(offsets[0], offsets[-1] + 1)):
            position.wrong.append(("gap", f"draining {position}: {offsets}"))
        for row in answer.rows:
            if topic.stored[partition].get(row["log_offset"]) != number_of(row):
                position.wrong.append(("wrong content", f"draining {position}: {row}"))
        position.at = offsets[-1] + 1
        if offsets[-1] == last:
            break
    if position.at is not None and position.at > last + 1:
        position.wrong.append(("ahead", f"{position} is at {position.at}, the last one is {last}"))
    position.starts(last + 1, "nothing is left, so it")


def _check_fetched(topics: list[Topic], history: History) -> None:
    """What only reads gives what there is, without gaps."""
    known = {topic.name: topic for topic in topics}
    for event in history.events("fetch", "fetch_range"):
        topic = known.get(event.arguments["topic"])
        if topic is None or not event.succeeded or topic.cut is not None:
            continue
        by_partition: dict[int, list[int]] = {}
        for row in event.rows:
            by_partition.setdefault(row["partition"], []).append(row["log_offset"])
            published = topic.at.get((row["partition"], row["log_offset"]))
            committed = event.transaction.committed
            if committed and published is not None and published.number != number_of(row):
                history.violate("wrong content", f"{event.statement}: {row}")
        for offsets in by_partition.values():
            if offsets != list(range(offsets[0], offsets[-1] + 1)):
                history.violate("gap", f"{event.statement} gave {offsets}")
        if event.call == "fetch_range":
            asked = event.arguments["last_offset"] - event.arguments["first_offset"] + 1
            if len(event.rows) != asked:
                history.violate("gap", f"{event.statement} gave {len(event.rows)} of {asked}")
