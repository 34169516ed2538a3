"""Idempotency keys of enqueue and enqueue_batch: what comes twice is there once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.queue import ack, claim, claim_one, enqueue, new_queue, settings, stats
from support.session import Connect, Session, new_name, refused, row, unchanged

LEVELS = ["read committed", "repeatable read", "serializable"]


def answer(session: Session, queue: str, known: str | None, **options: Any) -> tuple[int, bool]:
    """The id and whether it is a duplicate."""
    found = session.enqueue(queue=queue, idempotency_key=known, **{"payload": 1, **options})
    return found.job_id, found.duplicate


@pytest.mark.parametrize("level", LEVELS)
def test_the_second_is_a_duplicate_of_the_first(
    connect: Connect, connection: Session, queue: str, level: str
) -> None:
    """In another transaction and in the same one."""
    session = connect(isolation_level=level)
    first = answer(session, queue, "a")
    assert first == (first[0], False)
    assert answer(session, queue, "a", payload=2) == (first[0], True)
    session.commit()
    assert answer(session, queue, "a") == (first[0], True)
    assert answer(session, queue, "b")[1] is False
    session.commit()
    assert stats(connection, queue) == {"ready": 2}


def test_nothing_is_written_whatever_the_other_arguments_are(
    connection: Session, queue: str
) -> None:
    """Nothing but the key is compared, nor looked at."""
    job_id, _ = answer(connection, queue, "a", payload={"n": 1}, label="l", key="k")
    before = row(connection, "select last_value from pgq.job_id")
    with unchanged(connection):
        for options in (
            {"payload": 2},
            {"payload": None, "body": b"x"},
            {"delay": "1 hour"},
            {"delay": "100 days"},
            {"priority": 9, "label": "m", "key": "l", "headers": {"a": 1}},
        ):
            assert answer(connection, queue, "a", **options) == (job_id, True)
    assert row(connection, "select last_value from pgq.job_id") == before


def test_it_stands_for_the_job_whatever_becomes_of_it(connection: Session, queue: str) -> None:
    """Claimed, acked, or purged."""
    first = answer(connection, queue, "a")[0]
    job = claim_one(connection, queue)
    assert answer(connection, queue, "a") == (first, True)
    ack(connection, job)
    assert answer(connection, queue, "a") == (first, True)
    second = answer(connection, queue, "b")[0]
    connection.purge_queue(queue=queue, all_jobs=True)
    assert answer(connection, queue, "b") == (second, True)
    assert claim(connection, queue) == []


def test_a_job_with_a_key_is_like_any_other(connection: Session, queue: str) -> None:
    """All arguments arrive, of one and of many."""
    headers = {"a": 1}
    answer(
        connection, queue, "a", payload={"n": 1}, key="k", headers=headers, priority=3, label="l"
    )
    answer(connection, queue, "b", payload=None, body=b"raw", priority=4)
    connection.enqueue_batch(
        queue=queue,
        payloads=[1, 2],
        keys=["k", None],
        headers=[None, headers],
        priority=5,
        labels=[None, "l"],
        idempotency_keys=["c", None],
    )
    connection.enqueue_batch(queue=queue, bodies=[b"x"], priority=6, idempotency_keys=["d"])
    found = [
        (job.payload, job.body, job.key, job.headers, job.priority, job.label)
        for job in claim(connection, queue, 10)
    ]
    assert found == [
        ({"n": 1}, None, "k", headers, 3, "l"),
        (None, b"raw", None, None, 4, None),
        (1, None, "k", None, 5, None),
        (2, None, None, headers, 5, "l"),
        (None, b"x", None, None, 6, None),
    ]


def test_a_delay_and_a_time_count_for_new_ones(connection: Session, queue: str) -> None:
    answer(connection, queue, "a", delay="1 hour")
    assert stats(connection, queue) == {"delayed": 1}
    error = refused(
        "22023",
        connection.enqueue,
        queue=queue,
        payload=1,
        delay="100 days",
        idempotency_key="c",
    )
    assert "expire" in str(error)
    # what was refused is new
    assert answer(connection, queue, "c")[1] is False


def test_a_batch_answers_for_each_place(connection: Session, queue: str) -> None:
    """Known ones, new ones, ones that come twice in it, and ones without a key."""
    known, _ = answer(connection, queue, "known")
    keys = ["new", "known", None, "new", "other", None, "known", "other"]
    found = connection.enqueue_batch(queue=queue, payloads=list(range(8)), idempotency_keys=keys)
    ids = [job_id for job_id, _ in found]
    assert [duplicate for _, duplicate in found] == [
        *(False, True, False, True),
        *(False, False, True, True),
    ]
    assert ids[1] == ids[6] == known
    assert (ids[0], ids[4]) == (ids[3], ids[7])
    assert len(set(ids)) == 5
    jobs = {job.job_id: job.payload for job in claim(connection, queue, 10)}
    assert jobs == {known: 1, ids[0]: 0, ids[2]: 2, ids[4]: 4, ids[5]: 5}
    again = connection.enqueue_batch(queue=queue, payloads=list(range(8)), idempotency_keys=keys)
    assert [row.duplicate for row in again] == [key is not None for key in keys]
    assert [(a.job_id, b) for a, b in zip(again, keys, strict=True) if b] == [
        (job_id, key) for job_id, key in zip(ids, keys, strict=True) if key
    ]


@pytest.mark.parametrize("keys", [None, [None, None]])
def test_without_keys_nothing_is_noted(
    connection: Session, queue: str, keys: list[None] | None
) -> None:
    """Not even a storage class for them."""
    before = row(connection, "select count(*) from pgq.idempotency")
    for _ in range(2):
        found = connection.enqueue_batch(queue=queue, payloads=[1, 2], idempotency_keys=keys)
        assert [row.duplicate for row in found] == [False, False]
        assert answer(connection, queue, None)[1] is False
    assert row(connection, "select count(*) from pgq.idempotency") == before


def test_an_empty_batch(connection: Session, queue: str) -> None:
    assert connection.enqueue_batch(queue=queue, payloads=[], idempotency_keys=[]) == []


def test_a_key_belongs_to_its_queue(connection: Session, queue: str) -> None:
    other = new_queue(connection)
    first = answer(connection, queue, "a")
    second = answer(connection, other, "a")
    assert [first[1], second[1]] == [False, False]
    assert first[0] != second[0]


def test_a_new_queue_of_the_same_name_knows_no_keys(connection: Session, queue: str) -> None:
    answer(connection, queue, "a")
    connection.drop_queue(queue=queue)
    connection.create_queue(queue=queue)
    assert answer(connection, queue, "a")[1] is False


def test_after_the_window_it_is_new(connection: Session, clock: Clock) -> None:
    """A day, or what the queue says; counted from the call that was no duplicate."""
    for window, before in (("1 day", "23 hours"), ("1 minute", "50 seconds")):
        queue = new_queue(connection, idempotency_window=window)
        first, _ = answer(connection, queue, "a")
        clock.advance(before)
        assert answer(connection, queue, "a") == (first, True)
        clock.advance("1 hour" if window == "1 day" else "10 seconds")
        second, duplicate = answer(connection, queue, "a")
        assert (duplicate, second != first) == (False, True)
        assert answer(connection, queue, "a") == (second, True)


def test_a_clock_that_goes_back(connection: Session, queue: str, clock: Clock) -> None:
    """A key that was noted in the future counts."""
    clock.advance("10 days")
    first, _ = answer(connection, queue, "a")
    clock.advance("-10 days")
    assert answer(connection, queue, "a") == (first, True)
    clock.advance("10 days")
    assert answer(connection, queue, "a") == (first, True)
    clock.advance("25 hours")
    assert answer(connection, queue, "a")[1] is False


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_bad_keys(connection: Session, queue: str, key: str) -> None:
    with unchanged(connection):
        refused("22023", connection.enqueue, queue=queue, payload=1, idempotency_key=key)
        refused(
            "22023",
            connection.enqueue_batch,
            queue=queue,
            payloads=[1, 2],
            idempotency_keys=["good", key],
        )


def test_longest_and_odd_keys(connection: Session, queue: str) -> None:
    """255 characters of several bytes; keys are told apart by all that they are."""
    keys = ["ü" * 255, "ü" * 254, "a", "A", " a", "a ", "a\tb", "🙂", "null"]
    assert [answer(connection, queue, key)[1] for key in keys] == [False] * len(keys)
    assert [answer(connection, queue, key)[1] for key in keys] == [True] * len(keys)


def test_arrays_that_do_not_fit(connection: Session, queue: str) -> None:
    for keys in (["a"], ["a", "b", "c"], [["a"], ["b"]]):
        refused(
            "22023", connection.enqueue_batch, queue=queue, payloads=[1, 2], idempotency_keys=keys
        )


def test_an_unknown_queue(connection: Session) -> None:
    refused("MQ002", connection.enqueue, queue="nowhere", payload=1, idempotency_key="a")
    refused(
        "MQ002",
        connection.enqueue_batch,
        queue="nowhere",
        payloads=[1],
        idempotency_keys=["a"],
    )


def test_a_savepoint_that_is_rolled_back(connect: Connect, queue: str) -> None:
    """What was noted behind it was never there."""
    session = connect()
    first, _ = answer(session, queue, "before")
    session.execute("savepoint s")
    answer(session, queue, "behind")
    assert answer(session, queue, "before") == (first, True)
    session.execute("rollback to s")
    assert answer(session, queue, "before") == (first, True)
    assert answer(session, queue, "behind")[1] is False
    session.commit()


def test_ten_thousand_keys(connection: Session, queue: str) -> None:
    """Half of them twice, in batches."""
    keys = [f"key {n % 7500}" for n in range(10000)]
    found = connection.enqueue_batch(
        queue=queue, payloads=list(range(10000)), idempotency_keys=keys
    )
    assert sum(row.duplicate for row in found) == 2500
    assert [row.job_id for row in found[7500:]] == [row.job_id for row in found[:2500]]
    again = connection.enqueue_batch(
        queue=queue, payloads=list(range(10000)), idempotency_keys=keys
    )
    assert all(row.duplicate for row in again)
    assert [row.job_id for row in again] == [row.job_id for row in found]
    assert stats(connection, queue) == {"ready": 7500}


# ---------------------------------------------------------------------------- the setting


def test_the_window_is_a_setting(connection: Session) -> None:
    queue = new_name("queue")
    connection.create_queue(queue=queue)
    assert settings(connection, queue)["idempotency_window"] == timedelta(days=1)
    changed = connection.alter_queue(queue=queue, idempotency_window="2 hours")
    assert changed.idempotency_window == timedelta(hours=2)
    assert connection.alter_queue(queue=queue, lease="1 minute").idempotency_window == timedelta(
        hours=2
    )
    connection.create_queue(queue=queue, idempotency_window="2 hours")
    error = refused("MQ005", connection.create_queue, queue=queue, idempotency_window="1 day")
    assert "idempotency_window: given 1 day, has 02:00:00" in str(error.diag.message_detail)


@pytest.mark.parametrize("window", ["0", "999 milliseconds", "367 days", "-1 day", "2 years"])
def test_bad_windows(connection: Session, queue: str, window: str) -> None:
    for function in (connection.create_queue, connection.alter_queue):
        error = refused("22023", function, queue=queue, idempotency_window=window)
        assert "idempotency_window" in str(error)
    refused("22023", connection.create_queue, queue=queue, no_limit=["idempotency_window"])


@pytest.mark.parametrize("window", ["1 second", "1 year", "366 days", "36 hours"])
def test_good_windows(connection: Session, window: str) -> None:
    queue = new_queue(connection, idempotency_window=window)
    first = answer(connection, queue, "a")
    assert answer(connection, queue, "a") == (first[0], True)


def test_a_queue_with_a_setting_enqueues_as_before(connection: Session) -> None:
    queue = new_queue(connection, idempotency_window="1 hour")
    assert len({enqueue(connection, queue) for _ in range(3)}) == 3
