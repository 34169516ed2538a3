"""Lengths of time whose parts have different signs: they compare as one thing and add as another.

Months and days have no fixed length. '-12 months 361 days' counts as one day when it is compared,
and added to a moment it leads four days back.
"""

from __future__ import annotations

from typing import Any

import pytest

from jobs import (
    AnyConnection,
    call,
    claim,
    claim_one,
    enqueue,
    enqueue_many,
    new_name,
    new_queue,
    refused,
    settings,
    stats,
    value,
)
from support import Clock

# all of them compare as more than nothing
MIXED = [
    "-12 months 361 days",
    "1 month -29 days",
    "1 year -354 days 1 hour",
    "2 days -1 hour",
    "-1 day 25 hours",
    "1 day -1 microsecond",
]
SETTINGS = ["lease", "delay", "backoff", "backoff_max", "job_ttl", "retention"]


@pytest.mark.parametrize("length", MIXED)
@pytest.mark.parametrize("setting", SETTINGS)
def test_no_queue_has_one(connection: AnyConnection, setting: str, length: str) -> None:
    """Neither at first nor later."""
    bad = {setting: length}
    # so that it is not refused for its delay
    other = {"delay": "0"} if setting == "job_ttl" else {}
    refused(connection, "22023", "create_queue", queue=new_name(), **bad, **other)
    queue = new_queue(connection)
    refused(connection, "22023", "alter_queue", queue=queue, **bad)


@pytest.mark.parametrize("setting", SETTINGS)
def test_not_one_that_counts_as_nothing(connection: AnyConnection, setting: str) -> None:
    """It would lead five days back."""
    refused(
        connection,
        "22023",
        "create_queue",
        **{"queue": new_name(), setting: "-12 months 360 days"},
    )


@pytest.mark.parametrize("length", [*MIXED, "-12 months 360 days"])
def test_no_job_is_delayed_by_one(connection: AnyConnection, queue: str, length: str) -> None:
    refused(connection, "22023", "enqueue", queue=queue, payload="1", delay=length)
    refused(connection, "22023", "enqueue_batch", queue=queue, bodies=[b"1"], delay=length)


@pytest.mark.parametrize("length", MIXED)
def test_no_lease_is_one(connection: AnyConnection, queue: str, length: str) -> None:
    """The lease would be over before it began."""
    enqueue_many(connection, queue, 3)
    for max_jobs in (1, 2):
        refused(connection, "22023", "claim_job", queue=queue, max_jobs=max_jobs, lease=length)
    job = claim_one(connection, queue)
    token = {"lease_token": job.lease_token}
    refused(connection, "22023", "extend_lease", job_id=job.job_id, **token, lease=length)
    refused(connection, "22023", "extend_lease_batch", job_ids=[job.job_id], **token, lease=length)
    assert stats(connection, queue) == {"ready": 2, "leased": 1}


@pytest.mark.parametrize("length", [*MIXED, "-12 months 360 days"])
def test_no_job_is_given_back_by_one(connection: AnyConnection, queue: str, length: str) -> None:
    """It would be due before all that claims look at."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    token = {"lease_token": job.lease_token}
    refused(connection, "22023", "nack", job_id=job.job_id, **token, delay=length)
    refused(connection, "22023", "nack_batch", job_ids=[job.job_id], **token, delay=length)
    assert value(connection, "ack", job_id=job.job_id, **token)


@pytest.mark.parametrize("length", ["1 month 2 days 3 hours", "1 year", "90 days 12:30:00"])
def test_parts_of_one_sign_are_welcome(
    connection: AnyConnection, clock: Clock, length: str
) -> None:
    everything: dict[str, Any] = {"lease": length, "delay": length, "backoff": length}
    queue = new_queue(connection, **everything, backoff_max=length, job_ttl="20 years")
    assert (
        settings(connection, queue)["lease"] > settings(connection, new_queue(connection))["lease"]
    )
    enqueue(connection, queue, delay=length)
    assert claim(connection, queue) == []
    clock.advance("400 days")
    job = claim_one(connection, queue, lease=length)
    arguments = {"job_id": job.job_id, "lease_token": job.lease_token}
    assert call(connection, "extend_lease", **arguments, lease=length) == [(True,)]
    assert value(connection, "nack", **arguments, delay=length)
    assert stats(connection, queue) == {"delayed": 1}
