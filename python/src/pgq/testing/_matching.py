"""Which jobs a test has asked for, and how it is told that there are others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pgq.messages import JobInfo

__all__ = ["checked"]

SHOWN = 20
CLOSE = timedelta(seconds=1)
"""So exactly `delay` and `run_at` are meant."""


def checked(
    queue: str, jobs: Sequence[JobInfo], wanted: Mapping[str, Any], count: int | None
) -> list[JobInfo]:
    """The jobs that have all that is wanted; AssertionError: they are not so many."""
    __tracebackhide__ = True
    found = [job for job in jobs if all(_has(job, *one) for one in wanted.items())]
    if len(found) == count or (count is None and found):
        return found
    what = ", ".join(f"{name}={value!r}" for name, value in wanted.items())
    lines = [
        f'queue "{queue}" has {len(found)} jobs{what and f" with {what}"}, not'
        f" {'at least 1' if count is None else count}; it has {len(jobs)} in all",
        *(f"  {_line(job)}" for job in jobs[:SHOWN]),
        *([f"  and {len(jobs) - SHOWN} more"] if len(jobs) > SHOWN else []),
    ]
    raise AssertionError("\n".join(lines))


def _has(job: JobInfo, name: str, value: Any) -> bool:
    if name == "payload":
        return _contains(job.payload, value)
    if name in ("delay", "run_at"):
        found = job.due_at if name == "run_at" else _delay(job)
        return found is not None and abs(found - value) <= CLOSE
    return bool(getattr(job, name) == value)


def _delay(job: JobInfo) -> timedelta | None:
    if job.due_at is None or job.enqueued_at is None:
        return None
    return job.due_at - job.enqueued_at


def _contains(found: Any, wanted: Any) -> bool:
    """Whether it is that; objects may have more members."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(name in found and _contains(found[name], one) for name, one in wanted.items())
    return bool(found == wanted)


def _line(job: JobInfo) -> str:
    content = f"payload={job.payload!r}" if job.body is None else f"body={job.body!r}"
    more = {name: getattr(job, name) for name in ("label", "key", "unique_key", "priority")}
    more["delay"] = _delay(job)
    named = [f" {name}={value!r}" for name, value in more.items() if value]
    return f"job {job.job_id}, {job.state}: {content[:200]}{''.join(named)}"
