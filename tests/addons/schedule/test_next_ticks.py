"""next_ticks: what a cron expression names, and what is none."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.schedule import times
from support.session import Session, refused

# a Thursday
AFTER = "2026-01-01 00:00+00"

EXPRESSIONS = {
    "*/20 * * * *": ["2026-01-01 00:20", "2026-01-01 00:40", "2026-01-01 01:00"],
    "59 23 * * *": ["2026-01-01 23:59", "2026-01-02 23:59"],
    "0 0 * * *": ["2026-01-02 00:00", "2026-01-03 00:00"],
    "5,10-12,8 3 * * *": [f"2026-01-01 03:{minute:02}" for minute in (5, 8, 10, 11, 12)],
    "0 8-18/5 * * *": ["2026-01-01 08:00", "2026-01-01 13:00", "2026-01-01 18:00"],
    # names and numbers, in any case, with blanks and tabs anywhere between the fields
    "0 12 1 feb,JUN *": ["2026-02-01 12:00", "2026-06-01 12:00", "2027-02-01 12:00"],
    "\t0  12\t1 2,6  *  ": ["2026-02-01 12:00", "2026-06-01 12:00"],
    "0 0 * * MON-wed": ["2026-01-05 00:00", "2026-01-06 00:00", "2026-01-07 00:00"],
    # Sunday is 0 and 7, and ends a range
    "0 0 * * 0": ["2026-01-04 00:00", "2026-01-11 00:00"],
    "0 0 * * 7": ["2026-01-04 00:00", "2026-01-11 00:00"],
    "0 0 * * 5-7": ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00", "2026-01-09 00:00"],
    "0 0 * * FRI-SUN": ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00"],
    "0 0 * * SUN-TUE": ["2026-01-04 00:00", "2026-01-05 00:00", "2026-01-06 00:00"],
    # a range of weekdays may go on after the end of the week
    "0 0 * * FRI-MON": [f"2026-01-0{day} 00:00" for day in (2, 3, 4, 5, 9)],
    "0 0 * * 7-2": ["2026-01-04 00:00", "2026-01-05 00:00", "2026-01-06 00:00", "2026-01-11 00:00"],
    # the last day of a month, and the last one of a weekday
    "0 0 L * *": [f"2026-{day} 00:00" for day in ("01-31", "02-28", "03-31", "04-30")],
    "0 0 15,l 2 *": ["2026-02-15 00:00", "2026-02-28 00:00", "2027-02-15 00:00"],
    "0 0 L 2 */7": ["2027-02-28 00:00", "2032-02-29 00:00", "2038-02-28 00:00"],
    "0 0 * * FRIL": [f"2026-{day} 00:00" for day in ("01-30", "02-27", "03-27", "04-24")],
    "0 0 * * 5l,7L": [f"2026-01-{day} 00:00" for day in (25, 30)],
    "0 0 L * SUNL": ["2026-01-25 00:00", "2026-01-31 00:00", "2026-02-22 00:00"],
    "0 0 */28 2 FRIL": ["2036-02-29 00:00", "2064-02-29 00:00"],
    # both days are restricted: either counts
    "0 0 3 * MON": ["2026-01-03 00:00", "2026-01-05 00:00", "2026-01-12 00:00"],
    # a day that begins with a star is not restricted: both count
    "0 0 */2 * MON": ["2026-01-05 00:00", "2026-01-19 00:00", "2026-02-09 00:00"],
    # days that few months have
    "0 0 31 * *": ["2026-01-31 00:00", "2026-03-31 00:00", "2026-05-31 00:00"],
    "0 0 29 2 *": ["2028-02-29 00:00", "2032-02-29 00:00"],
    # and that few years have: a Sunday, across a year 2100 without that day
    "0 0 29 2 */7": [f"{year}-02-29 00:00" for year in (2032, 2060, 2088, 2128)],
    "@hourly": ["2026-01-01 01:00", "2026-01-01 02:00"],
    "@daily": ["2026-01-02 00:00", "2026-01-03 00:00"],
    "@midnight": ["2026-01-02 00:00", "2026-01-03 00:00"],
    "@weekly": ["2026-01-04 00:00", "2026-01-11 00:00"],
    "@Monthly": ["2026-02-01 00:00", "2026-03-01 00:00"],
    " @yearly ": ["2027-01-01 00:00", "2028-01-01 00:00"],
    "@annually": ["2027-01-01 00:00", "2028-01-01 00:00"],
}

# and the field that is wrong
NONE = {
    "": "1 field(s)",
    "0 0 * *": "4 field(s)",
    "0 0 0 * * *": "6 field(s)",
    "@reboot": "1 field(s)",
    "@every 5m": "2 field(s)",
    "60 * * * *": '"minute": "60"',
    "-1 * * * *": '"minute": "-1"',
    "5/10 * * * *": '"minute": "5/10"',
    "*/0 * * * *": '"minute": "*/0"',
    "*/60 * * * *": '"minute": "*/60"',
    "1,,2 * * * *": '"minute": ""',
    "5-1 * * * *": '"minute": "5-1". Write 5-59,0-1.',
    "5-1/2 * * * *": '"minute": "5-1/2"',
    "1.5 * * * *": '"minute": "1.5"',
    "0 24 * * *": '"hour": "24"',
    "0 9-24 * * *": '"hour": "9-24"',
    "0 22-2 * * *": '"hour": "22-2". Write 22-23,0-2.',
    "0 0 28-5 * *": '"day of month": "28-5". Write 28-31,1-5.',
    "0 0 1 NOV-FEB *": '"month": "NOV-FEB". Write 11-12,1-2.',
    "0 L * * *": '"hour": "L"',
    "0 mon * * *": '"hour": "mon"',
    "0 0 0 * *": '"day of month": "0"',
    "0 0 32 * *": '"day of month": "32"',
    "0 0 15L * *": '"day of month": "15L"',
    "0 0 L-3 * *": '"day of month": "L-3"',
    "0 0 20-L * *": '"day of month": "20-L"',
    "0 0 0,L * *": '"day of month": "0"',
    "0 0 ? * *": '"day of month": "?"',
    "0 0 * 13 *": '"month": "13"',
    "0 0 * 0 *": '"month": "0"',
    "0 0 * mon *": '"month": "mon"',
    "0 0 * january *": '"month": "january"',
    "0 0 * * 8": '"day of week": "8"',
    "0 0 * * MON#1": '"day of week": "MON#1"',
    "0 0 * * 5-1/2": '"day of week": "5-1/2"',
    "0 0 * * 5-8": '"day of week": "5-8"',
    "0 0 * * 8-5": '"day of week": "8-5"',
    "0 0 * * L": '"day of week": "L"',
    "0 0 * * *L": '"day of week": "*L"',
    "0 0 * * 1-5L": '"day of week": "1-5L"',
    "0 0 * * 8L": '"day of week": "8L"',
    "0 0 * * \u0661": '"day of week"',
    "0 0 * * *\n": '"day of week"',
    "0" + ",0" * 500 + " 0 * * *": "1009 characters",
}

NEVER = [
    "0 0 30 2 *",
    "0 0 31 4,6,9,11,2 *",
    "0 0 30-31 FEB */2",
    "0 0 31 feb,sep *",
    "0 0 31 4 */2,1",
    # days of the months that are never among the last seven
    "0 0 */30 4 FRIL",
    "0 0 */20,*/31 * 5L,1L",
]


@pytest.mark.parametrize("cron", EXPRESSIONS)
def test_expressions(connection: Session, cron: str) -> None:
    expected = EXPRESSIONS[cron]
    found = connection.next_ticks(cron=cron, after=AFTER, max_ticks=len(expected))
    assert times([tick for (tick,) in found]) == expected


@pytest.mark.parametrize("cron", NONE)
def test_what_is_no_expression(connection: Session, queue: str, cron: str) -> None:
    """The field that is wrong is named, here and where a schedule gets it."""
    error = refused("22023", connection.next_ticks, cron=cron)
    assert NONE[cron] in (error.diag.message_detail or "")
    assert "day of week (0-7 or SUN-SAT)" in (error.diag.message_hint or "")
    content = {"queue": queue, "payload": 1}
    refused("22023", connection.create_schedule, schedule="s", cron=cron, **content)


@pytest.mark.parametrize("cron", NEVER)
def test_what_never_comes(connection: Session, queue: str, cron: str) -> None:
    error = refused("22023", connection.next_ticks, cron=cron)
    assert "at least one date" in str(error)
    assert f'"day of month": "{cron.split()[2]}"' in (error.diag.message_detail or "")
    content = {"queue": queue, "payload": 1}
    refused("22023", connection.create_schedule, schedule="s", cron=cron, **content)


@pytest.mark.parametrize(
    "cron",
    [
        "0 0 30 2 MON",
        "0 0 */31,1 2 FRIL,0",
        "0 0 30 2 FRIL",
        "0 0 31 4 1,*/2",
        "0 0 30 1,2 *",
        "0 0 29 2 1-7/3",
    ],
)
def test_what_comes_at_some_time(connection: Session, cron: str) -> None:
    """On a weekday, or in another month."""
    assert len(connection.next_ticks(cron=cron)) == 10


def test_every_date_on_every_weekday(connection: Session) -> None:
    """The search has an end for each of them, also beside a year 2100 that has no February 29."""
    [(found, latest)] = connection.execute(
        """
        select count(n.minute), max(n.minute)
        from generate_series(0, 6) as weekday
        cross join generate_series('2000-01-01'::timestamp, '2000-12-31', '1 day') as date
        cross join lateral (
            select format(
                '({0},{0},{%s},{%s},{%s},f,f)',
                extract(day from date), extract(month from date), weekday
            )::pgq._cron_times as times
        ) as t
        cross join pgq._next_minute(t.times, '2088-03-01') as n (minute)
        """
    ).fetchall()
    assert found == 7 * 366
    assert latest.year == 2128


def test_by_default_ten_from_now_on(connection: Session, clock: Clock) -> None:
    clock.set_to("2026-05-01 12:00:30+00")
    found = times([tick for (tick,) in connection.next_ticks(cron="0 0 * * *")])
    assert found == [f"2026-05-{day:02} 00:00" for day in range(2, 12)]


def test_a_tick_is_after_the_moment(connection: Session) -> None:
    """Not at it; seconds and less count."""
    for after, expected in (
        ("2026-01-01 11:59:59.999999+00", "2026-01-01 12:00"),
        ("2026-01-01 12:00:00+00", "2026-01-02 12:00"),
    ):
        [(tick,)] = connection.next_ticks(cron="0 12 * * *", after=after, max_ticks=1)
        assert times([tick]) == [expected]


def test_refusals(connection: Session) -> None:
    refused("22004", connection.next_ticks, cron=None)
    for zone in ("Europe/Berln", "CEST", "X5", "europe/berlin", "UTC+1", "", "Europe/Berlin5"):
        error = refused("22023", connection.next_ticks, cron="@daily", time_zone=zone)
        assert "time_zone" in str(error)
    for number in (0, -1, 100001):
        refused("22023", connection.next_ticks, cron="@daily", max_ticks=number)
    for moment in ("infinity", "-infinity", "0001-12-31 BC", "10000-01-01 00:00+00"):
        refused("22023", connection.next_ticks, cron="@daily", after=moment)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Adak"])
def test_the_years_that_there_are(connection: Session, zone: str) -> None:
    """From 1 to 9999: fewer ticks than asked for, and never beyond what a timestamp can have."""
    first = connection.execute(
        "select tick_at < '0001-01-03' from pgq.next_ticks('0 * * * *', %s, '0001-01-01 00:00+00')",
        [zone],
    ).fetchall()
    assert first == [(True,)] * 10
    [(last,)] = connection.execute(
        "select count(*) from pgq.next_ticks('* * * * *', %s, '9999-12-31 12:00+00', 1000)", [zone]
    ).fetchall()
    assert last == 719
    assert connection.next_ticks(cron="0 0 29 2 *", after="9999-12-31 23:59:59.999999+00") == []


def test_what_comes_seldom(connection: Session) -> None:
    """A hundred thousand of them would be beyond all dates."""
    found = connection.next_ticks(cron="0 0 29 2 *", after="9950-01-01 00:00+00", max_ticks=100000)
    assert len(found) == 12


def test_reading_is_enough_for_it(connection: Session) -> None:
    with connection.transaction():
        connection.execute("set transaction read only")
        assert len(connection.next_ticks(cron="@daily", max_ticks=2)) == 2
