"""What a page of dead letters promises: each once, by the time of death, and none that lives."""

from __future__ import annotations

from explorer.check_log import number_of
from explorer.known_jobs import Queue

__all__ = ["check_letters"]


def check_letters(queue: Queue) -> None:
    """Hold the pages against the jobs."""
    history = queue.history
    for event in queue.since_cut("fetch_dead_letters"):
        deaths = [(row["died_at"], row["job_id"]) for row in event.rows]
        if len(set(deaths)) < len(deaths) or [d for d, _ in deaths] != sorted(d for d, _ in deaths):
            history.violate("letters out of order", f"{event.statement}: {deaths}")
        for row in event.rows:
            number = number_of(row)
            job = queue.jobs.get(number) if number is not None else None
            if job is None or job.job_id not in (None, row["job_id"]):
                history.violate("wrong content", f"{event.statement}: {row}")
            elif any(f.transaction.ended < event.transaction.started for f in job.finished):
                history.violate("job twice", f"{event.statement}: {row} was finished before")
