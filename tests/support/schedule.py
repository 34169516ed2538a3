"""What tests of schedules share: short ways to make, run and look at them."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from support.session import Session, new_name

__all__ = ["due_ticks", "new_schedule", "state", "times", "written"]


def new_schedule(session: Session, **settings: Any) -> str:
    """A new schedule, with a payload unless it has a body; returns its name."""
    name = new_name("schedule")
    content = {} if "body" in settings else {"payload": {"of": name}}
    session.create_schedule(**{"schedule": name, **content, **settings})
    return name


def state(session: Session, schedule: str) -> Any:
    """What list_schedules shows of it."""
    [found] = session.list_schedules(schedule=schedule)
    return found


def times(moments: list[datetime]) -> list[str]:
    """Moments in UTC, as one writes them: day and time, seconds where there are any."""
    texts = [f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S}" for moment in moments]
    return [re.sub(r"(\d\d:\d\d):00$", r"\1", text) for text in texts]


def due_ticks(session: Session, schedule: str, **options: Any) -> list[str]:
    """Run what is due; the ticks that were written of this schedule, by their times."""
    runs = session.run_schedules(**options)
    return times([run.tick_at for run in runs if run.schedule == schedule and run.error is None])


def written(session: Session, queue: str) -> list[str]:
    """The ticks of all jobs in a queue, in order; they are finished by that."""
    jobs = session.claim_job(queue=queue, max_jobs=10000)
    for job in jobs:
        assert session.ack(job_id=job.job_id, lease_token=job.lease_token)
    found = [datetime.fromisoformat(job.headers["scheduled_at"]) for job in jobs]
    return times(sorted(found))
