"""When cron expressions have their ticks: by the rule of the guide, minute after minute.

What an expression names is written down here by hand, and local times are those of Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo

__all__ = ["CRONS", "SEASONS", "ZONES", "next_tick"]

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Cron:
    """What an expression names; ``star``: its minute or its hour begins with one."""

    minutes: Collection[int]
    hours: Collection[int]
    star: bool
    weekdays: Collection[int] = range(7)
    """From Monday, 0, on."""

    def names(self, local: datetime) -> bool:
        return (
            local.minute in self.minutes
            and local.hour in self.hours
            and local.weekday() in self.weekdays
        )

    def comes_at(self, moment: datetime, zone: ZoneInfo) -> bool:
        """Whether a full minute is a tick."""
        local = moment.astimezone(zone)
        if self.star:
            return self.names(local)
        # the second of two times, or the first one after those that were skipped
        if local.fold:
            return False
        return self.names(local) or any(self.names(time) for time in skipped(moment, zone))


def skipped(moment: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """The local times between the one of the minute before and that of the moment."""
    time = (moment - MINUTE).astimezone(zone).replace(tzinfo=None) + MINUTE
    until = moment.astimezone(zone).replace(tzinfo=None)
    while time < until:
        yield time
        time += MINUTE


CRONS = {
    "* * * * *": Cron(range(60), range(24), star=True),
    "*/5 * * * *": Cron(range(0, 60, 5), range(24), star=True),
    "0 * * * *": Cron([0], range(24), star=True),
    "@hourly": Cron([0], range(24), star=True),
    "*/20 2 * * *": Cron([0, 20, 40], [2], star=True),
    "30 2 * * *": Cron([30], [2], star=False),
    "0,45 1-3 * * *": Cron([0, 45], [1, 2, 3], star=False),
    "15 0-23/2 * * TUE,0": Cron([15], range(0, 24, 2), star=False, weekdays=[1, 6]),
}

ZONES = ["UTC", "Europe/Berlin", "Asia/Kolkata"]

SEASONS = [
    datetime(2030, 1, 1, tzinfo=timezone.utc),
    # an hour before the clocks of Berlin go forward, and back
    datetime(2030, 3, 31, tzinfo=timezone.utc),
    datetime(2030, 10, 27, tzinfo=timezone.utc),
]


@cache
def next_tick(cron: str, zone: str, after: datetime) -> datetime:
    """The first one after a moment."""
    moment = after.replace(second=0, microsecond=0) + MINUTE
    while not CRONS[cron].comes_at(moment, ZoneInfo(zone)):
        moment += MINUTE
    return moment
