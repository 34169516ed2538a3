"""Which worker has a job: claims do not store it, but heartbeats tell it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pgq import Client
from pgq._sampling import permitted
from pgq.messages import JobInfo, WorkerInfo

__all__ = ["holders", "workers"]


def holders(client: Client, jobs: Iterable[JobInfo]) -> dict[int, WorkerInfo]:
    """Of leased jobs the workers that named them in their last heartbeat."""
    leased = {one.job_id for one in jobs if one.state == "leased"}
    if not leased:
        return {}
    return {
        job_id: worker for worker in _known(client) for job_id in leased & {*_named(worker.details)}
    }


def workers(client: Client, job: JobInfo) -> dict[str, Any]:
    """The worker of a leased job, when it said so, and the workers of the queue that are alive."""
    if job.state != "leased":
        return {}
    held = holders(client, [job]).get(job.job_id)
    return {
        "worker": held and {"worker": held.worker, "seen_at": held.last_seen_at},
        "queue_workers": [
            one.worker for one in _known(client) if not one.stale and job.queue in one.sources
        ],
    }


def _known(client: Client) -> list[WorkerInfo]:
    with permitted(client):
        return client.monitor.list_workers()
    return []


def _named(details: Any) -> list[int]:
    """The jobs of a heartbeat; details are anything that a program sends."""
    told = json.loads(details) if isinstance(details, str) else details
    jobs = told.get("jobs") if isinstance(told, dict) else None
    return [one for one in jobs if isinstance(one, int)] if isinstance(jobs, list) else []
