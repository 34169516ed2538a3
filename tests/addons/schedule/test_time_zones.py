"""Cron expressions where the clocks are put forward and back: the rule of the guide.

The rule is written here a second time, in another way: all minutes of some days are looked at, by
Python's own time zones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from support.session import Session

UTC = timezone.utc
MINUTE = timedelta(minutes=1)

CHANGES = {
    "Europe/Berlin": ["2019-03-31 01:00", "2019-10-27 01:00"],
    "America/New_York": ["2020-03-08 07:00", "2020-11-01 06:00"],
    # by half an hour
    "Australia/Lord_Howe": ["2021-04-03 15:00", "2021-10-02 15:30"],
    # by two hours
    "Antarctica/Troll": ["2018-03-25 01:00", "2018-10-28 01:00"],
    # at midnight
    "America/Sao_Paulo": ["2017-02-19 02:00", "2017-10-15 03:00"],
    "America/Havana": ["2018-03-11 05:00", "2018-11-04 05:00"],
    # a whole day was left out
    "Pacific/Apia": ["2011-12-30 10:00"],
    # from one standard time to another
    "Asia/Pyongyang": ["2015-08-14 15:00", "2018-05-04 15:00"],
    # never
    "Asia/Kolkata": ["2020-03-29 01:00"],
    "UTC": ["2020-03-29 01:00"],
}
"""Moments, in UTC, at which the clocks of a zone were changed."""


def ticks(connection: Session, cron: str, zone: str, after: str, number: int) -> list[str]:
    """The next ones as local times with their offsets."""
    found = connection.next_ticks(cron=cron, time_zone=zone, after=after, max_ticks=number)
    return [f"{tick.astimezone(ZoneInfo(zone)):%a %H:%M %z}" for (tick,) in found]


# ------------------------------------------------------------------------- the rule, by examples


def test_a_time_that_is_skipped_comes_after_the_gap(connection: Session) -> None:
    """At its first moment, and once, however many times are skipped."""
    for cron in ("30 2 * * *", "0 2,3 * * *", "0,20,40 2 * * *"):
        found = ticks(connection, cron, "Europe/Berlin", "2026-03-28 12:00+00", 2)
        assert found[0] == "Sun 03:00 +0200"
        assert found[1].startswith("Mon 02:")


def test_a_time_that_comes_twice_is_the_first(connection: Session) -> None:
    for cron in ("30 2 * * *", "30 2-2 * * SUN-MON"):
        found = ticks(connection, cron, "Europe/Berlin", "2026-10-24 12:00+00", 2)
        assert found == ["Sun 02:30 +0200", "Mon 02:30 +0100"]


def test_stars_follow_real_time(connection: Session) -> None:
    """A minute or an hour that begins with a star: what is skipped is left out."""
    for cron in ("*/30 * * * *", "*/30 1-4 * * *", "0,30 * * * *"):
        found = ticks(connection, cron, "Europe/Berlin", "2026-03-29 00:00+00", 3)
        assert found == ["Sun 01:30 +0100", "Sun 03:00 +0200", "Sun 03:30 +0200"]
        found = ticks(connection, cron, "Europe/Berlin", "2026-10-24 23:30+00", 5)
        assert found == [
            "Sun 02:00 +0200",
            "Sun 02:30 +0200",
            "Sun 02:00 +0100",
            "Sun 02:30 +0100",
            "Sun 03:00 +0100",
        ]


def test_a_day_that_begins_late(connection: Session) -> None:
    """Where the clocks go forward at midnight, @daily comes all the same."""
    found = ticks(connection, "@daily", "America/Havana", "2018-03-10 12:00+00", 3)
    assert found == ["Sun 01:00 -0400", "Mon 00:00 -0400", "Tue 00:00 -0400"]


def test_a_day_that_is_not(connection: Session) -> None:
    """Samoa had no December 30 in 2011: its ticks come as the 31st begins."""
    found = ticks(connection, "0 12 * * *", "Pacific/Apia", "2011-12-29 12:00+00", 3)
    assert found == ["Thu 12:00 -1000", "Sat 00:00 +1400", "Sat 12:00 +1400"]


# --------------------------------------------------------------------- the rule, minute by minute


class Expression:
    """A random expression, in which only minutes and hours are restricted, and its numbers."""

    def __init__(self, rng: random.Random) -> None:
        minute, self.minutes = self._field(rng, 60, [0, 0, 15, 30, 59])
        hour, self.hours = self._field(rng, 24, [0, 1, 2, 3, 12, 23])
        self.text = f"{minute} {hour} * * *"
        self.real_time = minute.startswith("*") or hour.startswith("*")

    @staticmethod
    def _field(rng: random.Random, size: int, values: list[int]) -> tuple[str, set[int]]:
        choice = rng.random()
        if choice < 0.35:
            step = rng.choice([1, 2, 3, 5, 20])
            return ("*" if step == 1 else f"*/{step}"), set(range(0, size, step))
        if choice < 0.6:
            first, last = sorted(rng.sample(range(size), 2))
            step = rng.choice([1, 1, 7])
            suffix = "" if step == 1 else f"/{step}"
            return f"{first}-{last}{suffix}", set(range(first, last + 1, step))
        found = set(rng.choices(values, k=rng.choice([1, 1, 2, 3])))
        return ",".join(map(str, found)), found

    def names(self, local: datetime) -> bool:
        return local.minute in self.minutes and local.hour in self.hours


def minutes(first: datetime, last: datetime) -> Iterator[datetime]:
    while first <= last:
        yield first
        first += MINUTE


def by_the_rule(
    cron: Expression, zone: ZoneInfo, after: datetime, until: datetime
) -> set[datetime]:
    """All ticks between two moments."""

    def local(moment: datetime) -> datetime:
        return moment.astimezone(zone).replace(tzinfo=None)

    if cron.real_time:
        return {m for m in minutes(after + MINUTE, until) if cron.names(local(m))}
    found = set()
    for time in minutes(local(after) - timedelta(days=2), local(until)):
        if cron.names(time):
            moment = time.replace(tzinfo=zone).astimezone(UTC)
            # a time that is skipped stands behind the gap; go back to its end
            while local(moment - MINUTE) > time:
                moment -= MINUTE
            found.add(moment)
    return {moment for moment in found if after < moment <= until}


@pytest.mark.parametrize("zone", CHANGES)
def test_minute_by_minute(connection: Session, zone: str) -> None:
    """Random expressions, from random moments around each change on."""
    rng = random.Random(zone)
    wrong = []
    for text in CHANGES[zone]:
        change = datetime.fromisoformat(text).replace(tzinfo=UTC)
        for _ in range(12):
            cron = Expression(rng)
            after = change + rng.randint(-1500, 200) * MINUTE
            until = after + timedelta(hours=30)
            found = connection.execute(
                "select n.tick_at from pgq.next_ticks(%s, %s, %s, 1800) as n where n.tick_at <= %s",
                [cron.text, zone, after, until],
            ).fetchall()
            listed = [tick for (tick,) in found]
            expected = sorted(by_the_rule(cron, ZoneInfo(zone), after, until))
            if listed != expected:
                odd = sorted(set(listed) ^ set(expected))[:3]
                wrong.append(f"{cron.text} after {after}: {[str(o) for o in odd]}")
    assert wrong == []


def test_a_moment_within_a_minute(connection: Session) -> None:
    """In the hour that comes twice too, by its seconds."""
    for second in range(0, 7200, 601):
        after = datetime(2026, 10, 25, 0, 0, 13, 250000, tzinfo=UTC) + timedelta(seconds=second)
        [(tick,)] = connection.next_ticks(
            cron="*/7 * * * *", time_zone="Europe/Berlin", after=after, max_ticks=1
        )
        first = after.replace(second=0, microsecond=0) + MINUTE
        zone = ZoneInfo("Europe/Berlin")
        expected = next(
            moment
            for moment in minutes(first, first + timedelta(hours=1))
            if moment.astimezone(zone).minute % 7 == 0
        )
        assert tick == expected
