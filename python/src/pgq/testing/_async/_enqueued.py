"""Whether a job was enqueued."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection

from pgq._async import AsyncClient
from pgq._durations import duration
from pgq.messages import JobInfo
from pgq.testing._async._clock import client_of
from pgq.testing._matching import checked

__all__ = ["assert_enqueued"]


async def assert_enqueued(
    target: AsyncClient | AsyncConnection[Any],
    queue: str,
    payload: Any = None,
    *,
    count: int | None = None,
    key: str | None = None,
    label: str | None = None,
    unique_key: str | None = None,
    priority: int | None = None,
    delay: timedelta | float | None = None,
    run_at: datetime | None = None,
) -> list[JobInfo]:
    """Fail unless the queue has unfinished jobs with all that is given; return them.

    `payload`: objects may have more members than are named here. `count`: exactly so many; 0: none;
    by default at least one. `delay` and `run_at` may differ by 1 s. Jobs of the open transaction
    count. It looks at the first 10,000 jobs, and the error lists 20.
    """
    __tracebackhide__ = True
    client = client_of(target)
    wanted = {
        "payload": None
        if payload is None
        else json.loads(client._encoding.text("payload", payload)),
        "key": key,
        "label": label,
        "unique_key": unique_key,
        "priority": priority,
        "delay": None if delay is None else duration("delay", delay, numbers=True),
        "run_at": run_at,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    jobs = await client.jobs.peek_jobs(queue, max_jobs=10000)
    return checked(queue, jobs, given, count)
