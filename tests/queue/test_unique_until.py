"""unique_until: how long a job keeps others of its unique key out."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, ack, claim, claim_one, new_queue, settings, stats
from support.session import Session, refused, unchanged
from support.unique import MODES, add, keys_of, loose_keys


def held(job: Job) -> dict[str, Any]:
    return {"job_id": job.job_id, "lease_token": job.lease_token}


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_a_worker_has(connection: Session, clock: Clock, mode: str) -> None:
    """Only with claimed does it let another one in, also when its lease has run out."""
    queue = new_queue(connection, unique_until=mode)
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    assert connection.extend_lease(**held(job), lease="1 minute")
    second, duplicate = add(connection, queue)
    assert duplicate is (mode != "claimed")
    assert add(connection, queue) == (second, True)
    clock.advance("2 minutes")
    assert (second == number) is duplicate
    found = claim(connection, queue, 9)
    assert {job.job_id for job in found} == {number, second}
    # who claims the first one again takes nothing from another one
    assert loose_keys(connection) == 0


@pytest.mark.parametrize("way", ["nack", "release_job", "nack_batch", "release_job_batch"])
@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_is_given_back(connection: Session, mode: str, way: str) -> None:
    """It waits again, and keeps others out."""
    queue = new_queue(connection, unique_until=mode, backoff="0")
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    give_back(connection, way, job)
    assert keys_of(connection, queue) == {"k": number}
    assert add(connection, queue) == (number, True)
    assert claim_one(connection, queue).job_id == number


@pytest.mark.parametrize("way", ["nack", "release_job", "nack_batch", "release_job_batch"])
@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_is_given_back_when_it_has_expired(
    connection: Session, clock: Clock, mode: str, way: str
) -> None:
    """It keeps nobody out, and its key goes with it."""
    queue = new_queue(connection, unique_until=mode, job_ttl="1 hour", lease="2 hours")
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("90 minutes")
    give_back(connection, way, job)
    assert loose_keys(connection) == 0
    connection.cleanup()
    again, duplicate = add(connection, queue)
    assert (again > number, duplicate) == (True, False)
    assert keys_of(connection, queue) == {"k": again}


def give_back(connection: Session, way: str, job: Job) -> None:
    if way.endswith("_batch"):
        [done] = connection.call(way, job_ids=[job.job_id], lease_token=job.lease_token)
        assert done == (job.job_id,)
    else:
        assert connection.call(way, **held(job)) is True


@pytest.mark.parametrize("way", ["nack", "release_job", "nack_batch", "release_job_batch"])
def test_a_job_that_is_given_back_behind_another(connection: Session, way: str) -> None:
    """With claimed it goes on without its key; nothing is lost, and one job has the key."""
    queue = new_queue(connection, unique_until="claimed", backoff="0")
    first, _ = add(connection, queue)
    job = claim_one(connection, queue)
    second, duplicate = add(connection, queue)
    assert duplicate is False
    give_back(connection, way, job)
    assert keys_of(connection, queue) == {"k": second}
    assert connection.get_job(job_id=first).unique_key is None
    assert connection.get_job(job_id=second).unique_key == "k"
    assert {job.job_id for job in claim(connection, queue, 2)} == {first, second}
    assert keys_of(connection, queue) == {}


def bury(connection: Session, queue: str, way: str, clock: Clock) -> int:
    """A job that has become a dead letter in some way."""
    number, _ = add(connection, queue, max_attempts=1)
    job = claim_one(connection, queue, label=None)
    if way == "lease":
        clock.advance("31 seconds")
        connection.cleanup()
    elif way == "claim":
        clock.advance("31 seconds")
        assert claim(connection, queue) == []
    elif way == "nack":
        assert connection.nack(**held(job))
    else:
        assert connection.reject_job(**held(job))
    assert stats(connection, queue) == {"dead": 1}
    assert isinstance(number, int)
    return number


WAYS = ["nack", "reject_job", "lease", "claim"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
def test_a_dead_letter(connection: Session, clock: Clock, mode: str, way: str) -> None:
    """Only with removed does it keep others out."""
    queue = new_queue(connection, unique_until=mode)
    number = bury(connection, queue, way, clock)
    assert keys_of(connection, queue) == ({"k": number} if mode == "removed" else {})
    again, duplicate = add(connection, queue)
    assert duplicate is (mode == "removed")
    assert (again == number) is duplicate
    assert loose_keys(connection) == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_dead_letter_is_redriven_with_its_key(
    connection: Session, clock: Clock, mode: str
) -> None:
    queue = new_queue(connection, unique_until=mode)
    number = bury(connection, queue, "nack", clock)
    assert connection.redrive(queue=queue, job_id=number).taken == 1
    assert keys_of(connection, queue) == {"k": number}
    assert add(connection, queue) == (number, True)
    found = connection.get_job(job_id=number)
    assert (found.unique_key, found.max_attempts, found.attempt) == ("k", 1, 0)
    assert ack(connection, claim_one(connection, queue))
    assert keys_of(connection, queue) == {}


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("mode", ["finished", "claimed"])
def test_a_dead_letter_whose_key_another_job_has(
    connection: Session, clock: Clock, mode: str, every: bool
) -> None:
    """It stays one, and is redriven when that job is finished."""
    queue = new_queue(connection, unique_until=mode)
    number = bury(connection, queue, "nack", clock)
    second, _ = add(connection, queue)
    which = {"all_jobs": True} if every else {"job_id": number}
    for _ in range(2):
        assert connection.redrive(queue=queue, **which).taken == 0
        assert stats(connection, queue) == {"ready": 1, "dead": 1}
        assert keys_of(connection, queue) == {"k": second}
    assert connection.get_job(job_id=number).unique_key == "k"
    assert connection.cancel_job(job_id=second)
    assert connection.redrive(queue=queue, **which).taken == 1
    assert keys_of(connection, queue) == {"k": number}


def test_two_dead_letters_of_one_key(connection: Session, clock: Clock) -> None:
    """The older one is redriven, with all that have other keys or none."""
    queue = new_queue(connection)
    first, second = (bury_one(connection, queue, "k") for _ in range(2))
    other, none = bury_one(connection, queue, "a"), bury_one(connection, queue, None)
    assert connection.redrive(queue=queue, all_jobs=True).taken == 3
    assert {job.job_id for job in claim(connection, queue, 9)} == {first, other, none}
    assert connection.get_job(job_id=second).state == "dead"


def bury_one(connection: Session, queue: str, key: str | None) -> int:
    number, _ = add(connection, queue, key)
    assert connection.reject_job(**held(claim_one(connection, queue)))
    assert isinstance(number, int)
    return number


@pytest.mark.parametrize("how", ["purge", "retention", "redrive"])
def test_until_a_dead_letter_is_removed(connection: Session, clock: Clock, how: str) -> None:
    queue = new_queue(connection, unique_until="removed", retention="1 day")
    number = bury(connection, queue, "nack", clock)
    assert add(connection, queue) == (number, True)
    if how == "purge":
        assert connection.purge_queue(queue=queue, dead_only=True).taken == 1
    elif how == "retention":
        clock.advance("25 hours")
        connection.cleanup()
    else:
        assert connection.redrive(queue=queue, all_jobs=True).taken == 1
        assert add(connection, queue) == (number, True)
        assert ack(connection, claim_one(connection, queue))
    assert keys_of(connection, queue) == {}
    assert add(connection, queue)[1] is False


def test_a_change_of_the_setting(connection: Session, clock: Clock) -> None:
    """It is asked when a job is claimed or dies; a letter that has kept its key keeps it."""
    queue = new_queue(connection, unique_until="removed")
    dead = bury(connection, queue, "nack", clock)
    assert connection.alter_queue(queue=queue, unique_until="claimed").unique_until == "claimed"
    assert settings(connection, queue)["unique_until"] == "claimed"
    assert add(connection, queue) == (dead, True)
    number, _ = add(connection, queue, "l")
    job = claim_one(connection, queue)
    assert job.job_id == number
    assert keys_of(connection, queue) == {"k": dead}
    connection.alter_queue(queue=queue, unique_until="finished")
    second, duplicate = add(connection, queue, "l")
    assert duplicate is False
    assert ack(connection, job)
    assert keys_of(connection, queue) == {"k": dead, "l": second}
    assert connection.purge_queue(queue=queue, all_jobs=True).taken == 2
    assert keys_of(connection, queue) == {}


def test_the_setting(connection: Session, queue: str) -> None:
    assert settings(connection, queue)["unique_until"] == "finished"
    assert connection.alter_queue(queue=queue, lease="1 hour").unique_until == "finished"
    for wrong in ("", "Finished", "never"):
        with unchanged(connection):
            refused("22023", connection.create_queue, queue="new", unique_until=wrong)
            refused("22023", connection.alter_queue, queue=queue, unique_until=wrong)
    refused("MQ005", connection.create_queue, queue=queue, unique_until="removed")
    assert connection.create_queue(queue=queue, unique_until="finished").queue == queue
