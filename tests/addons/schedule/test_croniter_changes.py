"""Cron expressions around changes of clocks: as in the library croniter, but for what is listed.

Each difference is of a kind that the guide lists, and there it is the rule of the guide that pgq
keeps. Which local times an expression names is asked of croniter, on a clock that never changes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from support.house import ROOT
from support.session import Session

UTC = timezone.utc
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TICKS = 8

YEARS = {
    "Europe/Berlin": 2019,
    "America/New_York": 2020,
    # by half an hour
    "Australia/Lord_Howe": 2021,
    # by two hours
    "Antarctica/Troll": 2018,
    # at midnight
    "America/Sao_Paulo": 2017,
    # back first, in the month of fasting
    "Africa/Casablanca": 2021,
    # a whole day was left out
    "Pacific/Apia": 2011,
}
"""Zones, and a year in which their clocks were changed twice or more."""

LISTED = {
    "both": "a repeated fixed time ticks both times",
    "moved": "a skipped time ticks after the gap even if the schedule has a star",
    "left out": "Where clocks go back by half an hour, croniter omits the repeated ticks of a star",
}
"""The kinds of differences, and what the guide says of what croniter does."""


def changes(zone: ZoneInfo, year: int) -> Iterator[datetime]:
    """The moments of the year at which the clocks of a zone were changed."""
    moment = datetime(year, 1, 1, tzinfo=UTC)
    while moment.year == year:
        following = moment + HOUR
        if moment.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            while moment.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
                following -= MINUTE
            yield following + MINUTE
        moment += HOUR


def local(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def field(rng: random.Random, size: int, often: list[int]) -> str:
    """Minutes or hours, of which those around the change come often."""

    def value() -> int:
        return rng.choice(often) if rng.random() < 0.6 else rng.randrange(size)

    choice = rng.random()
    if choice < 0.25:
        return rng.choice(["*", "*", "*/2", "*/3", "*/7", f"*/{rng.randint(1, size - 1)}"])
    if choice < 0.5:
        first, last = sorted((value(), value()))
        step = rng.choice(["", "", "/2", "/5"])
        return f"{first}-{last}{step}" if first < last else str(first)
    if choice < 0.6:
        return f"*/{rng.randint(2, size - 1)},{value()}"
    return ",".join(str(value()) for _ in range(rng.choice([1, 1, 2, 4])))


def expression(rng: random.Random, change: datetime) -> str:
    """A random expression that has ticks near a change, whose local time is given."""
    hours = [(change + n * HOUR).hour for n in (-2, -1, -1, 0, 0, 1)]
    days = sorted({(change + timedelta(days=n)).day for n in (-1, 0, 1)})
    day = rng.choice(["*"] * 6 + ["*/2", ",".join(map(str, days)), f"{days[0]}", "1-31"])
    weekday = rng.choice(["*"] * 6 + ["SAT,SUN,mon", "1-5", "*/2", "0", "5-7"])
    return " ".join(
        (field(rng, 60, [0, 0, 15, 29, 30, 45, 59]), field(rng, 24, hours), day, "*", weekday)
    )


def next_named(cron: str, time: datetime) -> datetime:
    """The first local time that an expression names, the given one counts."""
    found = croniter(cron, time - MINUTE, implement_cron_bug=True).get_next(datetime)
    assert isinstance(found, datetime)
    return found


def follows_real_time(cron: str) -> bool:
    minute, hour = cron.split()[:2]
    return minute.startswith("*") or hour.startswith("*")


def kind(cron: str, zone: ZoneInfo, moment: datetime, ours: bool) -> str | None:
    """Of which kind the difference is that one of the two has a tick at a moment."""
    time = local(moment, zone)
    real_time = follows_real_time(cron)
    before = local(moment - MINUTE, zone) + MINUTE
    if next_named(cron, time) == time:
        comes_again = time.replace(tzinfo=zone).astimezone(UTC) < moment
        if comes_again and not real_time and not ours:
            return "both"
        if comes_again and real_time and ours:
            return "left out"
    elif before <= next_named(cron, before) < time and real_time and not ours:
        return "moved"
    return None


def by_croniter(cron: str, after: datetime, zone: ZoneInfo) -> list[datetime]:
    found = croniter(cron, after.astimezone(zone), implement_cron_bug=True)
    return [found.get_next(datetime).astimezone(UTC) for _ in range(TICKS)]


def differences(connection: Session, seed: int, number: int) -> tuple[Counter[str], list[str]]:
    """How many of each kind there are, and what is of none."""
    rng = random.Random(seed)
    asked = []
    for name, year in YEARS.items():
        for change in changes(ZoneInfo(name), year):
            for _ in range(number):
                minutes = rng.choice([rng.randint(-60, 1500), rng.randint(-60, 130)])
                cron = expression(rng, local(change, ZoneInfo(name)))
                asked.append((cron, name, change - minutes * MINUTE))
    rows = connection.execute(
        "select array(select n.tick_at from pgq.next_ticks(a.cron, a.zone, a.after, %s) as n)"
        " from unnest(%s::text[], %s::text[], %s::timestamptz[])"
        " with ordinality as a (cron, zone, after, place) order by a.place",
        [TICKS, *map(list, zip(*asked, strict=True))],
    ).fetchall()

    kinds: Counter[str] = Counter()
    wrong = []
    for (cron, name, after), (found,) in zip(asked, rows, strict=True):
        zone = ZoneInfo(name)
        ours = {tick.astimezone(UTC) for tick in found}
        theirs = set(by_croniter(cron, after, zone))
        until = min(max(ours), max(theirs))
        for moment in sorted(ours ^ theirs):
            if moment <= until:
                which = kind(cron, zone, moment, moment in ours)
                kinds[which or "none"] += 1
                if which is None:
                    wrong.append(f"{cron} {name} after {after}: {moment} {moment in ours}")
    return kinds, wrong


@pytest.mark.slow
def test_random_expressions_around_changes(connection: Session) -> None:
    kinds, wrong = differences(connection, seed=1, number=20)
    assert wrong == []
    assert set(kinds) == set(LISTED)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 4))
def test_many_random_expressions_around_changes(connection: Session, seed: int) -> None:
    """The same with other seeds, and more of them."""
    kinds, wrong = differences(connection, seed=seed, number=70)
    assert wrong == []
    assert set(kinds) == set(LISTED)


def test_the_guide_lists_the_differences() -> None:
    guide = " ".join((ROOT / "python/docs/guides/schedules.md").read_text().split())
    assert [text for text in LISTED.values() if text not in guide] == []
