"""The times of cron expressions are those that the library croniter finds, but for what is listed.

Compared with ``implement_cron_bug``: cron takes a day that begins with a star as not restricted.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from support.session import Session

UTC = timezone.utc
NUMBER = 5

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

FIELDS: list[tuple[int, int, list[str]]] = [
    (0, 59, []),
    (0, 23, []),
    (1, 31, []),
    (1, 12, MONTHS),
    (0, 6, WEEKDAYS),
]


def field(rng: random.Random, lowest: int, highest: int, names: list[str]) -> str:
    """A random field: a star, or a list of values, ranges and steps, by numbers or by names."""

    def value(number: int) -> str:
        name = names[number - lowest] if names and rng.random() < 0.5 else str(number)
        return rng.choice([name, name.upper(), name.capitalize()])

    def item(place: int) -> str:
        step = f"/{rng.randint(1, highest // 2)}" if rng.random() < 0.3 else ""
        if place == 0 and rng.random() < 0.2:
            return f"*{step}"
        if highest == 31 and rng.random() < 0.1:
            return "L"
        first, last = rng.sample(range(lowest, highest + 1), 2)
        if names is not WEEKDAYS or step:
            first, last = sorted((first, last))
        if step or rng.random() < 0.4:
            return f"{value(first)}-{value(last)}{step}"
        return value(first)

    if rng.random() < 0.3:
        return "*"
    return ",".join(item(place) for place in range(rng.choice([1, 1, 1, 2, 4])))


def expression(rng: random.Random) -> str:
    return " ".join(field(rng, *each) for each in FIELDS)


def by_croniter(cron: str, after: datetime, number: int = NUMBER) -> list[datetime]:
    """What the library finds."""
    found = croniter(cron, after, implement_cron_bug=True, max_years_between_matches=100)
    return [found.get_next(datetime).astimezone(UTC) for _ in range(number)]


def by_pgq(
    connection: Session, asked: list[tuple[str, datetime]], zone: str
) -> list[list[datetime]]:
    """The same by next_ticks, for many at once."""
    rows = connection.execute(
        "select array(select n.tick_at from pgq.next_ticks(a.cron, %s, a.after, %s) as n)"
        " from unnest(%s::text[], %s::timestamptz[]) with ordinality as a (cron, after, place)"
        " order by a.place",
        [zone, NUMBER, [cron for cron, _ in asked], [after for _, after in asked]],
    ).fetchall()
    return [[tick.astimezone(UTC) for tick in ticks] for (ticks,) in rows]


@pytest.mark.parametrize("seed", range(3))
def test_random_expressions(connection: Session, seed: int) -> None:
    """A thousand each, from random moments between 1990 and 2090 on."""
    rng = random.Random(seed)
    epoch = datetime(1990, 1, 1, tzinfo=UTC)
    asked = [
        (expression(rng), epoch + timedelta(seconds=rng.randrange(100 * 365 * 86400)))
        for _ in range(1000)
    ]
    wrong = [
        f"{cron} after {after}: {found} in place of {expected}"
        for (cron, after), found in zip(asked, by_pgq(connection, asked, "UTC"))
        if found != (expected := by_croniter(cron, after))
    ]
    assert wrong == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
def test_random_expressions_by_local_time(connection: Session, zone: str) -> None:
    """As long as no clock is changed; test_time_zones.py has the rest."""
    rng = random.Random(zone)
    asked = []
    for _ in range(60):
        moment = datetime(rng.randint(2000, 2030), rng.choice([1, 5, 7]), 15, tzinfo=ZoneInfo(zone))
        asked.append((expression(rng), moment + timedelta(minutes=rng.randrange(30000))))
    wrong = []
    compared = 0
    for (cron, after), found in zip(asked, by_pgq(connection, asked, zone)):
        if {tick.astimezone(ZoneInfo(zone)).utcoffset() for tick in found} == {after.utcoffset()}:
            compared += 1
            if found != (expected := by_croniter(cron, after)):
                wrong.append(f"{cron} after {after}: {found} in place of {expected}")
    assert wrong == []
    assert compared > 20


DIFFERENT = {
    # a time that comes twice: cron does it once
    ("30 2 * * *", "Europe/Berlin", "2026-10-25 00:10"): (
        ["25 02:30+02:00", "26 02:30+01:00"],
        ["25 02:30+02:00", "25 02:30+01:00", "26 02:30+01:00"],
    ),
    # with a star, what is skipped is left out: cron makes up only for what has none
    ("0 */2 * * *", "Europe/Berlin", "2026-03-29 00:10"): (
        ["29 04:00+02:00", "29 06:00+02:00"],
        ["29 03:00+02:00", "29 04:00+02:00", "29 06:00+02:00"],
    ),
    # half an hour that comes twice
    ("*/20 1,2 * * *", "Australia/Lord_Howe", "2021-04-04 01:25"): (
        ["04 01:40+11:00", "04 01:40+10:30", "04 02:00+10:30"],
        ["04 01:40+11:00", "04 02:00+10:30"],
    ),
    # a range of one value is that value, not all of them
    ("0 0 * * 5-5", "UTC", "2026-01-01 00:10"): (
        ["02 00:00+00:00", "09 00:00+00:00"],
        ["02 00:00+00:00", "03 00:00+00:00"],
    ),
    # a day that does not begin with a star is restricted: either counts
    ("0 0 1,* * 2", "UTC", "2026-01-01 00:10"): (
        ["02 00:00+00:00", "03 00:00+00:00"],
        ["06 00:00+00:00", "13 00:00+00:00"],
    ),
}
"""An expression, a zone and a local time; what pgq finds after it, and what croniter finds."""


@pytest.mark.parametrize("case", DIFFERENT, ids=lambda case: case[0])
def test_what_is_different(connection: Session, case: tuple[str, str, str]) -> None:
    """The rule of the guide counts, which is cron's."""
    cron, name, text = case
    zone = ZoneInfo(name)
    after = datetime.fromisoformat(text).replace(tzinfo=zone)

    def told(found: list[datetime], number: int) -> list[str]:
        return [t.astimezone(zone).isoformat(" ", "minutes")[8:] for t in found[:number]]

    ours, theirs = DIFFERENT[case]
    assert told(by_pgq(connection, [(cron, after)], name)[0], len(ours)) == ours
    assert told(by_croniter(cron, after), len(theirs)) == theirs
