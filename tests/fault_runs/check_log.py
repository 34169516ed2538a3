"""What a fault run must show of topics: what was acknowledged, once, in the order of commits."""

from __future__ import annotations

from collections import Counter, defaultdict

import psycopg

from fault_runs.consumers import TRANSACTIONAL
from fault_runs.evidence import Evidence, Unit
from fault_runs.house import TOPICS
from fault_runs.producers import bulk_names
from fault_runs.streams import COPIES

__all__ = ["Stored", "check_groups", "check_topics"]

Stored = dict[str, dict[int, dict[int, str]]]
"""The names that are stored, by topic, partition and offset."""


def check_topics(evidence: Evidence) -> Stored:
    """Hold what is stored against what the producers were told."""
    stored: Stored = {}
    for topic in TOPICS:
        stored[topic] = _read(evidence, topic)
        units = [u for u in evidence.of("publish", "once") if u.about["topic"] == topic]
        _check_places(evidence, topic, units)
        if topic != "brief":
            _check_names(evidence, topic, units, stored[topic])
    _check_bulk(evidence, stored["bulk"])
    return stored


def _read(evidence: Evidence, topic: str) -> dict[int, dict[int, str]]:
    """All messages of a topic; those of one that has a retention as they were consumed, too."""
    found: dict[int, dict[int, str]] = {}
    for partition, first, last, _ in evidence.ask("select * from pgq.list_offsets(%s)", [topic]):
        begin = first or (last or 0) + 1
        if topic != "brief" and begin > 1:
            evidence.violate("lost", f"{topic}/{partition} begins at {begin}")
        rows = []
        if last and begin <= last:
            try:
                rows = evidence.ask(
                    "select log_offset, payload ->> 'name' from pgq.fetch_range(%s, %s, %s, %s)",
                    [topic, partition, begin, last],
                )
            except psycopg.Error as error:
                evidence.violate("offsets", f"{topic}/{partition}: {error}")
        if sorted(offset for offset, _ in rows) != list(range(begin, (last or 0) + 1)):
            evidence.violate("offsets", f"{topic}/{partition}: {begin} to {last} has a gap")
        found[partition] = dict(rows)
    return found


def _check_places(evidence: Evidence, topic: str, units: list[Unit]) -> None:
    """Nothing stands where something else does, and who came later stands behind."""
    taken: dict[tuple[int, int], str] = {}
    # what had been acknowledged before a unit began stands before all of that unit
    moments: list[tuple[int, int, int, int, str]] = []
    for unit in units:
        if not unit.done or unit.told.get("duplicate"):
            continue
        for partition, first, last in unit.told["places"]:
            if first is None:
                continue
            for offset in range(first, last + 1):
                other = taken.setdefault((partition, offset), unit.about["unit"])
                if other != unit.about["unit"]:
                    told = f"{topic}/{partition}/{offset} of {other} and {unit.about['unit']}"
                    evidence.violate("place taken", told)
            moments.append((unit.began, 0, partition, first, unit.about["unit"]))
            moments.append((unit.ended, 1, partition, last, unit.about["unit"]))
    highest: dict[int, int] = defaultdict(int)
    for _, ending, partition, offset, name in sorted(moments):
        if ending:
            highest[partition] = max(highest[partition], offset)
        elif offset <= highest[partition]:
            told = f"{topic}/{partition}/{offset} of {name} began behind {highest[partition]}"
            evidence.violate("commit order", told)


def _check_names(
    evidence: Evidence, topic: str, units: list[Unit], stored: dict[int, dict[int, str]]
) -> None:
    """What was acknowledged is there once and at its place, what was not there wholly or not."""
    counts = Counter(name for names in stored.values() for name in names.values())
    known = {name for unit in units for name in unit.about["names"]}
    for name, count in counts.items():
        if count > 1:
            evidence.violate("twice", f"{name} is {count} times in {topic}")
        if topic not in ("bulk", *COPIES) and name not in known:
            evidence.violate("unknown", f"nobody published {name} to {topic}")
    # the attempts at one name: some transaction of them may have committed without an answer
    sure: dict[str, bool] = {}
    for unit in units:
        names = unit.about["names"]
        there = [counts[name] > 0 for name in names]
        if unit.done:
            if not all(there):
                evidence.violate("lost", f"{names} of {unit.about['unit']} in {topic}")
            _check_told(evidence, topic, unit, stored)
        elif any(there) and not all(there):
            evidence.violate("torn", f"a part of {names} of {unit.about['unit']} is in {topic}")
        for name in names:
            sure[name] = sure.get(name, True) and unit.undone
    for name, never in sure.items():
        if never and counts[name]:
            evidence.violate("undone", f"{name} is in {topic} although it was rolled back")


def _check_told(
    evidence: Evidence, topic: str, unit: Unit, stored: dict[int, dict[int, str]]
) -> None:
    places = [place for place in unit.told["places"] if place[1] is not None]
    if not places:
        return
    there = sorted(
        stored.get(partition, {}).get(offset, "nothing")
        for partition, first, last in places
        for offset in range(first, last + 1)
    )
    if there != sorted(unit.about["names"]):
        told = f"{unit.about['names']} was said to be at {places} of {topic}, where {there} is"
        evidence.violate("place", told)


def _check_bulk(evidence: Evidence, stored: dict[int, dict[int, str]]) -> None:
    """Each bulk write that was begun is there once; the producers have ended all of them."""
    counts = Counter(name for names in stored.values() for name in names.values())
    jobs = Counter(
        name for (name,) in evidence.ask("select name from done where queue = 'bulk-jobs'")
    )
    written: dict[str, set[int]] = defaultdict(set)
    for unit in evidence.of("begin write"):
        about = unit.about
        written[about["producer"]].add(about["seq"])
    ended: dict[str, int] = defaultdict(int)
    for unit in evidence.of("begin write", "commit write"):
        if unit.told.get("written"):
            producer = unit.about["unit"].split(".")[0]
            ended[producer] = max(ended[producer], unit.told["written"])
    for producer, numbers in written.items():
        for number in numbers:
            names = [name for task in bulk_names(producer, number) for name in task]
            where = jobs if number % 3 == 0 else counts
            found = [where[name] for name in names]
            least = 1 if number <= ended[producer] else 0
            if any(not least <= count <= 1 for count in found):
                told = f"write {number} of {producer}: its {len(names)} are {Counter(found)} times"
                evidence.violate("bulk write", told)


# ---------------------------------------------------------------------------- groups


def check_groups(evidence: Evidence, stored: Stored) -> None:
    """Every group saw every message in order, exactly once where it consumes in a transaction."""
    for topic, groups in TRANSACTIONAL.items():
        for group in groups:
            _check_seen(evidence, topic, group, stored[topic])
    for group in ("leased", "manual"):
        _check_received(evidence, group, stored["log"])


def _check_seen(
    evidence: Evidence, topic: str, group: str, stored: dict[int, dict[int, str]]
) -> None:
    seen: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for partition, offset, name in evidence.ask(
        "select partition, log_offset, name from seen"
        " where (topic, consumer_group) = (%s, %s) order by place",
        [topic, group],
    ):
        seen[partition].append((offset, name))
    where = f"{group} of {topic}"
    for partition, rows in seen.items():
        offsets = [offset for offset, _ in rows]
        if offsets != sorted(offsets):
            evidence.violate("order", f"{where} saw {partition} out of order")
    if topic == "brief":
        _check_twice(evidence, where, seen)
    else:
        for partition, names in stored.items():
            if dict(seen[partition]) != names:
                missed = sorted(set(names.items()) ^ set(seen[partition]))[:5]
                evidence.violate("group", f"{where}/{partition} differs from the topic: {missed}")
    for unit in evidence.of(group):
        if unit.done and unit.about.get("topic") == topic:
            for partition, first, last in unit.told["places"]:
                got = {offset for offset, _ in seen[partition]}
                if not got.issuperset(range(first, last + 1)):
                    told = f"{where}/{partition}: {first} to {last} was acknowledged"
                    evidence.violate("effect", told)


def _check_twice(evidence: Evidence, where: str, seen: dict[int, list[tuple[int, str]]]) -> None:
    counts = Counter(name for rows in seen.values() for _, name in rows)
    for name, count in counts.items():
        if count > 1:
            evidence.violate("twice", f"{where} saw {name} {count} times")
    told = {
        (partition, offset)
        for unit in evidence.of("publish")
        if unit.done and unit.about["topic"] == "brief"
        for partition, first, last in unit.told["places"]
        for offset in range(first, last + 1)
    }
    ranges = {
        partition: first
        for partition, first, _, _ in evidence.ask("select * from pgq.list_offsets('brief')")
    }
    for partition, offset in told:
        got = {found for found, _ in seen[partition]}
        if offset not in got and offset >= (ranges[partition] or 0):
            evidence.violate("group", f"{where} never saw {partition}/{offset}")


def _check_received(evidence: Evidence, group: str, stored: dict[int, dict[int, str]]) -> None:
    """At least once; each delivery has what stands there, and begins where the group stood."""
    deliveries = [
        u for u in evidence.of("poll", "fetch") if u.about["group"] == group and u.told.get("names")
    ]
    got: dict[int, set[int]] = defaultdict(set)
    for unit in deliveries:
        partition, first, names = (unit.told[what] for what in ("partition", "first", "names"))
        there = [stored[partition].get(first + n) for n in range(len(names))]
        if there != names:
            evidence.violate("delivery", f"{group}/{partition} got other than what is at {first}")
        got[partition].update(range(first, first + len(names)))
    commits = [unit for unit in evidence.of("commit") if unit.about["group"] == group]
    # Answers that were lost may have been the last to have a message; positions are sure.
    ends: dict[int, int] = dict(
        evidence.ask(
            "select partition, committed_offset from pgq.group_lag"
            " where (topic, consumer_group) = ('log', %s)",
            [group],
        )
    )
    for partition, names in stored.items():
        sure = [u.about["until"] for u in commits if u.done and u.about["partition"] == partition]
        if max(sure, default=0) > ends[partition]:
            evidence.violate("position", f"{group}/{partition}: {max(sure)} was acknowledged")
        if ends[partition] != max(names, default=0):
            evidence.violate("group", f"{group}/{partition} ended at {ends[partition]}")
        missed = sorted(set(names) - got[partition])
        if missed:
            evidence.violate("group", f"{group}/{partition} never got {missed[:5]}")
    _check_begins(evidence, group, deliveries, commits)


def _check_begins(
    evidence: Evidence, group: str, deliveries: list[Unit], commits: list[Unit]
) -> None:
    for unit in deliveries:
        partition, first = unit.told["partition"], unit.told["first"]
        mine = [c for c in commits if c.about["partition"] == partition and not c.undone]
        most = max((c.about["until"] for c in mine if c.began < unit.ended), default=0)
        least = max((c.about["until"] for c in mine if c.done and c.ended < unit.began), default=0)
        if not least + 1 <= first <= most + 1:
            told = f"{group}/{partition} was given {first}, not {least + 1} to {most + 1}"
            evidence.violate("position", told)
