"""What handlers return is the result of the job, where the queue keeps results."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

import pgq
from pgq import Client, JobResult
from pgq.worker import AsyncWorker, Reject, Retry, Worker
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import Gate, states, working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> None:
    _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue(
        "mail", keep_results=True, max_attempts=2, backoff=timedelta(milliseconds=10)
    )
    return client


def ends(client: Client, ids: list[int]) -> list[JobResult]:
    """What has become of the jobs, once all have ended."""
    return [client.await_result(number, timeout=timedelta(seconds=PATIENCE)) for number in ids]


@pytest.mark.parametrize(
    "settings", [{}, {"prefetch": 7}, {"prefetch": 7, "idempotent": True}], ids=str
)
def test_a_result(
    dsn: str, client: Client, kind: Kind, as_handler: As, settings: dict[str, Any]
) -> None:
    worker = kind(dsn)
    worker.handler("mail", **settings)(
        as_handler(lambda payload: {"twice": payload * 2} if payload else None)
    )
    ids = [one.job_id for one in client.enqueue_batch("mail", [*range(10)])]
    with working(worker):
        found = ends(client, ids)
    assert {one.state for one in found} == {"finished"}
    assert [one.result for one in found] == [None, *({"twice": n * 2} for n in range(1, 10))]
    kept = {job.payload: (job.outcome, job.result) for job in client.jobs.archived_jobs("mail")}
    assert kept[0] == ("acked", None)
    assert kept[3] == ("archived", {"twice": 6})


def test_a_queue_that_keeps_none(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """What the handler returns may be anything there."""
    client.admin.create_queue("calls")
    worker = kind(dsn)
    worker.handler("calls")(as_handler(lambda payload: object()))
    job_id = client.enqueue("calls", 1).job_id
    with working(worker):
        assert ends(client, [job_id]) == [JobResult("gone", None, None, None)]
        wait_until(lambda: client.jobs.archived_jobs("calls"))
    [job] = client.jobs.archived_jobs("calls")
    assert (job.outcome, job.result) == ("acked", None)


@pytest.mark.parametrize("result", [object(), {1: {2}}, float("nan")])
@pytest.mark.parametrize("batch", [None, 3])
def test_a_result_that_is_no_json(
    dsn: str, client: Client, kind: Kind, as_handler: As, result: Any, batch: int | None
) -> None:
    def one(payload: int) -> Any:
        return result if payload == 2 else payload

    def many(payloads: list[int], jobs: list[Any]) -> dict[int, Any]:
        return {job.job_id: one(job.payload) for job in jobs}

    worker = kind(dsn)
    worker.handler("mail", batch=batch)(as_handler(many if batch else one))
    ids = [found.job_id for found in client.enqueue_batch("mail", [1, 2, 3])]
    with working(worker):
        first, second, third = ends(client, ids)
    assert (first.result, third.result) == (1, 3)
    assert second.state == "failed"
    assert "JSON" in str(second.error)
    assert [attempt.attempt for attempt in client.jobs.job_history(ids[1])] == [2, 1]


@pytest.mark.parametrize("batch", [None, 3])
def test_values_that_json_does_not_have(
    dsn: str, client: Client, kind: Kind, as_handler: As, batch: int | None
) -> None:
    def encoder(value: Any) -> Any:
        return "a complex number" if isinstance(value, complex) else pgq.encode(value)

    naive, at = datetime(2030, 1, 1), datetime(2030, 1, 1, tzinfo=timezone.utc)
    said: list[Any] = [{"at": at}, {"number": 1j}, {"at": naive}]

    def many(payloads: list[int], jobs: list[Any]) -> dict[int, Any]:
        return {job.job_id: said[job.payload] for job in jobs}

    worker = kind(dsn, encoder=encoder)
    worker.handler("mail", batch=batch)(as_handler(many if batch else lambda n: said[n]))
    ids = [found.job_id for found in client.enqueue_batch("mail", [0, 1, 2])]
    with working(worker):
        first, second, third = ends(client, ids)
    assert first.result == {"at": "2030-01-01T00:00:00+00:00"}
    assert second.result == {"number": "a complex number"}
    assert "result.at: naive datetime; give it a time zone" in str(third.error)


def test_the_results_of_a_batch(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    def handle(payloads: list[int], jobs: list[Any]) -> dict[int, Any]:
        said = {1: "one", 2: Reject("no two"), 3: False, 4: None}
        if jobs[0].attempt == 1:
            said[6] = Retry("not yet", delay=0.01)
        return {job.job_id: said[job.payload] for job in jobs if job.payload in said}

    worker = kind(dsn, concurrency=1)
    worker.handler("mail", batch=10)(as_handler(handle))
    ids = [one.job_id for one in client.enqueue_batch("mail", [*range(1, 7)])]
    with working(worker):
        found = ends(client, ids)
    assert [(one.state, one.result) for one in found] == [
        ("finished", "one"),
        ("failed", None),
        ("finished", False),
        ("finished", None),
        ("finished", None),
        ("finished", None),
    ]
    assert found[1].error == "no two"


@pytest.mark.parametrize("bad", ["a\0b", "\ud800"])
def test_a_result_of_a_batch_that_the_database_refuses(
    dsn: str, client: Client, kind: Kind, as_handler: As, bad: str
) -> None:
    """It fails alone, though the results of a batch are stored together."""

    def handle(payloads: list[int], jobs: list[Any]) -> dict[int, Any]:
        return {job.job_id: bad if job.payload == 2 else job.payload for job in jobs}

    worker = kind(dsn)
    worker.handler("mail", batch=10)(as_handler(handle))
    ids = [one.job_id for one in client.enqueue_batch("mail", [1, 2, 3])]
    with working(worker):
        found = ends(client, ids)
    assert [one.state for one in found] == ["finished", "failed", "finished"]
    assert [one.result for one in found] == [1, None, 3]
    assert found[1].error


@pytest.mark.parametrize("batch", [None, 10])
def test_a_result_whose_lease_was_lost(
    dsn: str,
    client: Client,
    kind: Kind,
    as_handler: As,
    batch: int | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is not stored, and the log says so, as of a job without a result."""

    def lose() -> None:
        client.connection.execute("update pgq.job set lease_token = gen_random_uuid()")

    def one(payload: int) -> str:
        lose()
        return "too late"

    def many(payloads: list[int], jobs: list[Any]) -> dict[int, str]:
        lose()
        return {job.job_id: "too late" for job in jobs}

    worker = kind(dsn, concurrency=1)
    worker.handler("mail", batch=batch)(as_handler(many if batch else one))
    job_id = client.enqueue("mail", 1).job_id
    with working(worker):
        wait_until(lambda: "was done, but its lease was lost" in caplog.text)
    assert client.get_result(job_id).state == "leased"


def test_a_batch_that_fails_has_no_results(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    def handle(payloads: list[int], jobs: list[Any]) -> dict[int, Any]:
        return {jobs[0].job_id: "fine", 999999: "whose?"}

    worker = kind(dsn)
    worker.handler("mail", batch=10)(as_handler(handle))
    job_id = client.enqueue("mail", 1).job_id
    with working(worker):
        [found] = ends(client, [job_id])
    assert (found.state, found.result) == ("failed", None)
    assert "was not among its jobs" in str(found.error)


def test_results_of_a_batch_that_nobody_keeps(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    """They might be meant as errors: to take them for done could lose what failed."""
    client.admin.alter_queue("mail", keep_results=False)
    worker = kind(dsn)
    worker.handler("mail", batch=10)(
        as_handler(lambda payloads, jobs: {job.job_id: "odd" for job in jobs})
    )
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: client.jobs.dead_letters("mail"))
    [letter] = client.jobs.dead_letters("mail")
    assert letter.last_error == "TypeError: str is no outcome, and the queue keeps no results"


@pytest.mark.parametrize("results", [False, True])
def test_the_calls_for_many_jobs(
    dsn: str, client: Client, monkeypatch: pytest.MonkeyPatch, results: bool
) -> None:
    """The setting is read once. A batch is finished by one call for all equal results in a row;
    jobs without a result by the next claim."""
    calls: list[str] = []
    answer = Client._answer

    def counted(client: Client, cursor: Any, statement: bytes, *arguments: Any) -> Any:
        calls.append(statement.decode().partition("pgq.")[2].partition("(")[0])
        return answer(client, cursor, statement, *arguments)

    monkeypatch.setattr(Client, "_answer", counted)
    other = Worker(dsn, concurrency=1, heartbeat=None)
    done: list[int] = []

    def handle(payloads: list[int], jobs: list[Any]) -> dict[int, Any] | None:
        done.extend(payloads)
        return {job.job_id: "done" for job in jobs} if results else None

    other.handler("mail", batch=50)(handle)
    client.enqueue_batch("mail", [*range(100)])
    calls.clear()
    with working(other):
        wait_until(lambda: len(done) == 100 and states(client) == (0, 0))
    assert calls.count("finish_and_claim") + calls.count("claim_job") >= 2
    assert calls.count("list_queues") <= 2  # at the start, and by the connection of the leases
    assert calls.count("archive_job_batch") == (2 if results else 0)
    assert not {"archive_job", "ack", "get_job"} & {*calls}


def test_who_failed_and_when_it_began(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    began: list[datetime] = []

    def handle(payload: int) -> None:
        began.append(datetime.now(timezone.utc))
        if payload == 1:
            raise Reject("never")
        if payload == 2:
            raise Retry("later", delay=0.01)
        raise OSError("full")

    worker = kind(dsn, concurrency=1)
    worker.handler("mail")(as_handler(handle))
    ids = [client.enqueue("mail", payload).job_id for payload in (1, 2, 3)]
    before = datetime.now(timezone.utc)
    with working(worker):
        ends(client, ids)
        wait_until(client.monitor.list_workers)
        [known] = client.monitor.list_workers()
    histories = [client.jobs.job_history(number) for number in ids]
    assert [[one.error for one in history] for history in histories] == [
        ["never"],
        ["later", "later"],
        ["OSError: full", "OSError: full"],
    ]
    for attempt in (one for history in histories for one in history):
        assert attempt.worker == known.worker
        assert attempt.began_at is not None
        assert before <= attempt.began_at
        assert any(abs(attempt.began_at - moment) < timedelta(seconds=1) for moment in began)


@pytest.mark.parametrize("size", [{"batch": 3}, {"prefetch": 3}], ids=str)
def test_who_failed_of_several(
    dsn: str, client: Client, kind: Kind, as_handler: As, size: dict[str, int]
) -> None:
    def handle(payloads: Any) -> None:
        raise OSError("full")

    worker = kind(dsn)
    worker.handler("mail", **size)(as_handler(handle))
    ids = [one.job_id for one in client.enqueue_batch("mail", [1, 2, 3])]
    with working(worker):
        ends(client, ids)
    for number in ids:
        assert len({one.worker for one in client.jobs.job_history(number)} - {None}) == 1
        assert all(one.began_at for one in client.jobs.job_history(number))


def test_what_was_stopped_says_who_had_it(dsn: str, client: Client, kind: Kind) -> None:
    gate = Gate(kind)
    worker = kind(dsn)
    worker.handler("mail")(gate.handler)
    job_id = client.enqueue("mail", 1, max_attempts=1).job_id
    with working(worker) as started:
        wait_until(lambda: gate.begun and client.monitor.list_workers())
        [known] = client.monitor.list_workers()
        started.stop()
        started.stop()
        started.join()
    [attempt] = client.jobs.job_history(job_id)
    assert attempt.error == "the worker was stopped"
    assert attempt.worker == known.worker
    assert attempt.began_at is not None


def test_a_result_that_cannot_be_stored_says_who(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    worker = kind(dsn)
    worker.handler("mail")(as_handler(lambda payload: "a\0b"))
    job_id = client.enqueue("mail", 1).job_id
    with working(worker):
        ends(client, [job_id])
    for attempt in client.jobs.job_history(job_id):
        assert attempt.worker
        assert attempt.began_at


def test_a_setting_that_changes(
    dsn: str, client: Client, kind: Kind, as_handler: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read again now and then, with the other settings."""
    runtime = "pgq._runtime._sync" if kind is Worker else "pgq._runtime._async"
    monkeypatch.setattr(f"{runtime}._keeper.LOOK_AGAIN", 0.05)
    client.admin.alter_queue("mail", keep_results=False, lease=timedelta(seconds=1))
    worker = kind(dsn)
    worker.handler("mail")(as_handler(lambda payload: "kept"))
    with working(worker):
        first = client.enqueue("mail", 1).job_id
        assert ends(client, [first])[0].state == "gone"
        client.admin.alter_queue("mail", keep_results=True)

        def is_kept() -> bool:
            job_id = client.enqueue("mail", 2).job_id
            return ends(client, [job_id])[0].result == "kept"

        wait_until(is_kept)
