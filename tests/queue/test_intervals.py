"""Lengths of time whose parts have different signs: they compare as one thing and add as another.

Months and days have no fixed length. '-12 months 361 days' counts as one day when it is compared,
and added to a moment it leads four days back.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, settings, stats
from support.session import Session, new_name, refused, row, unchanged

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
def test_no_queue_has_one(connection: Session, setting: str, length: str) -> None:
    """Neither at first nor later."""
    bad = {setting: length}
    # so that it is not refused for its delay
    other = {"delay": "0"} if setting == "job_ttl" else {}
    with unchanged(connection):
        refused("22023", connection.create_queue, queue=new_name("queue"), **bad, **other)
    queue = new_queue(connection)
    with unchanged(connection):
        refused("22023", connection.alter_queue, queue=queue, **bad)


@pytest.mark.parametrize("setting", SETTINGS)
def test_not_one_that_counts_as_nothing(connection: Session, setting: str) -> None:
    """It would lead five days back."""
    with unchanged(connection):
        refused(
            "22023",
            connection.create_queue,
            **{"queue": new_name("queue"), setting: "-12 months 360 days"},
        )


@pytest.mark.parametrize("length", [*MIXED, "-12 months 360 days"])
def test_no_job_is_delayed_by_one(connection: Session, queue: str, length: str) -> None:
    with unchanged(connection):
        refused("22023", connection.enqueue, queue=queue, payload="1", delay=length)
    with unchanged(connection):
        refused("22023", connection.enqueue_batch, queue=queue, bodies=[b"1"], delay=length)


@pytest.mark.parametrize("length", MIXED)
def test_no_lease_is_one(connection: Session, queue: str, length: str) -> None:
    """The lease would be over before it began."""
    enqueue_many(connection, queue, 3)
    for max_jobs in (1, 2):
        with unchanged(connection):
            refused("22023", connection.claim_job, queue=queue, max_jobs=max_jobs, lease=length)
    job = claim_one(connection, queue)
    token = {"lease_token": job.lease_token}
    with unchanged(connection):
        refused("22023", connection.extend_lease, job_id=job.job_id, **token, lease=length)
    with unchanged(connection):
        refused("22023", connection.extend_lease_batch, job_ids=[job.job_id], **token, lease=length)
    assert stats(connection, queue) == {"ready": 2, "leased": 1}


@pytest.mark.parametrize("length", [*MIXED, "-12 months 360 days"])
def test_no_job_is_given_back_by_one(connection: Session, queue: str, length: str) -> None:
    """It would be due before all that claims look at."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    token = {"lease_token": job.lease_token}
    with unchanged(connection):
        refused("22023", connection.nack, job_id=job.job_id, **token, delay=length)
    with unchanged(connection):
        refused("22023", connection.nack_batch, job_ids=[job.job_id], **token, delay=length)
    assert connection.ack(job_id=job.job_id, **token)


@pytest.mark.parametrize("length", ["1 month 2 days 3 hours", "1 year", "90 days 12:30:00"])
def test_parts_of_one_sign_are_welcome(connection: Session, clock: Clock, length: str) -> None:
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
    assert connection.extend_lease(**arguments, lease=length)
    assert connection.nack(**arguments, delay=length)
    assert stats(connection, queue) == {"delayed": 1}


# what is shorter on some days of the year, or by the calendar of some place, than on others
TIGHT = [
    ("29 days", "1 month"),
    ("1 month", "31 days"),
    ("365 days", "1 year"),
    ("1 year", "366 days"),
    ("23:30:00", "1 day"),
    ("1 day", "24:30:00"),
    ("27 days 23:30:00", "1 month"),
    ("1 month 1 hour", "1 month 1 hour"),
    ("1 month 28 days", "2 months"),
    ("59 days", "2 months"),
    ("334 days", "11 months"),
    ("1 month 89 days", "4 months"),
    ("11 months", "337 days"),
    ("3 months", "1 month 62 days"),
]
ENOUGH = [
    ("27 days 22:30:00", "1 month"),
    ("1 month", "31 days 02:00:00"),
    ("364 days", "1 year"),
    ("1 year", "367 days"),
    ("22:30:00", "1 day"),
    ("1 day", "25:30:00"),
    ("13 days 22:30:00", "14 days"),
    ("57 days", "2 months"),
    ("310 days", "11 months"),
    ("1 month 87 days", "4 months"),
    ("1 year 57 days", "14 months"),
    ("11 months", "337 days 02:00:00"),
    ("3 months", "1 month 62 days 02:00:00"),
    ("1 month", "1 month 1 second"),
    ("1 day", "1 day 1 second"),
    ("0", "1 microsecond"),
]
# one of a change to summer time, one back, and the ends of months
DAYS = """
    select exists (
        select
        from generate_series(timestamptz '2027-01-01', '2028-12-31', '1 hour') as m
        where m + %(delay)s::interval >= m + %(job_ttl)s::interval
    )
"""


@pytest.mark.parametrize(("delay", "job_ttl"), TIGHT)
def test_a_delay_that_may_outlast_the_job(connection: Session, delay: str, job_ttl: str) -> None:
    """The job would expire before it is due, were it enqueued on the wrong day."""
    connection.execute("set timezone = 'Europe/Berlin'")
    both: dict[str, Any] = {"delay": delay, "job_ttl": job_ttl}
    assert row(connection, DAYS, both) == (True,)
    with unchanged(connection):
        refused("22023", connection.create_queue, queue=new_name("queue"), **both)
    queue = new_queue(connection)
    with unchanged(connection):
        refused("22023", connection.alter_queue, queue=queue, **both)


@pytest.mark.parametrize(("delay", "job_ttl"), ENOUGH)
def test_a_delay_that_never_does(connection: Session, delay: str, job_ttl: str) -> None:
    connection.execute("set timezone = 'Europe/Berlin'")
    both: dict[str, Any] = {"delay": delay, "job_ttl": job_ttl}
    assert row(connection, DAYS, both) == (False,)
    new_queue(connection, **both)
