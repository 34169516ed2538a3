"""Jobs that are done on the test's own connection, and inside its transaction."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgq import Client, UnknownQueue
from pgq.testing import Attempt, work_off
from pgq.worker import Handlers, Reject, Release, Retry, RunningJob, Snooze

Connection = psycopg.Connection[Any]


def raising(error: Exception, queue: str = "mail") -> Handlers:
    """Handlers whose handler raises that."""
    handlers = Handlers()

    @handlers.handler(queue)
    def fail(payload: Any) -> None:
        raise error

    return handlers


def sent(connection: Connection) -> list[int]:
    return [n for (n,) in connection.execute("select n from sent order by n")]


def test_jobs_of_the_open_transaction_are_done_in_it(
    inner: Connection, handlers: Handlers, connection: Connection
) -> None:
    client = Client(inner)
    first, second = (client.enqueue("mail", {"n": n}).job_id for n in (1, 2))
    assert work_off(handlers, inner) == [
        Attempt("mail", first, "done", 2),
        Attempt("mail", second, "done", 4),
    ]
    assert sent(inner) == [1, 2]
    assert work_off(handlers, client) == []
    assert sent(connection) == []  # nothing was committed
    inner.rollback()
    assert client.jobs.peek_jobs("mail") == []
    assert client.jobs.archived_jobs("mail") == []
    assert sent(inner) == []


def test_in_autocommit_each_call_commits(connection: Connection, inner: Connection) -> None:
    client = Client(connection)
    job_id = client.enqueue("mail", {"n": 1}).job_id
    seen: list[Any] = []
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any, job: RunningJob) -> None:
        seen.append(Client(inner).get_job(job.job_id))
        inner.rollback()

    assert work_off(handlers, connection) == [Attempt("mail", job_id, "done")]
    assert seen[0].state == "leased"
    assert Client(inner).get_job(job_id) is None


def test_an_error_of_a_handler_does_not_abort_the_transaction(inner: Connection) -> None:
    client = Client(inner)
    client.enqueue_batch("mail", [{"n": n} for n in (1, 1, 2)])
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: dict[str, int]) -> None:
        inner.execute("insert into sent values (%s)", [payload["n"]])

    done = work_off(handlers, inner)
    assert [attempt.outcome for attempt in done] == ["done", "failed", "done"]
    assert isinstance(done[1].error, psycopg.errors.UniqueViolation)
    assert sent(inner) == [1, 2]
    (left,) = client.jobs.peek_jobs("mail")
    assert (left.job_id, left.state, left.attempt) == (done[1].job_id, "delayed", 1)
    assert left.last_error is not None
    assert left.last_error.startswith("UniqueViolation: ")


def test_what_was_written_before_another_error_stays(inner: Connection) -> None:
    """As with a worker, where it was committed: only SQL that fails takes it back."""
    Client(inner).enqueue("mail", {})
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any) -> None:
        inner.execute("insert into sent values (1)")
        raise OSError("no route")

    (attempt,) = work_off(handlers, inner)
    assert (attempt.outcome, str(attempt.error)) == ("failed", "no route")
    assert sent(inner) == [1]


def test_a_handler_that_hides_a_failed_statement_has_failed(inner: Connection) -> None:
    Client(inner).enqueue("mail", {})
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any) -> None:
        with pytest.raises(psycopg.errors.DivisionByZero):
            inner.execute("select 1 / 0")

    (attempt,) = work_off(handlers, inner)
    assert attempt.outcome == "failed"
    assert "returned after a failed statement" in str(attempt.error)
    assert sent(inner) == []


@pytest.mark.parametrize("statement", ["commit", "rollback", "rollback; select 1"])
def test_a_handler_must_not_end_the_transaction(inner: Connection, statement: str) -> None:
    Client(inner).enqueue("mail", {})
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any) -> None:
        for part in statement.split(";"):
            inner.execute(part.encode())

    with pytest.raises(RuntimeError, match='queue "mail" has ended the transaction'):
        work_off(handlers, inner)


def test_a_handler_may_use_savepoints(inner: Connection) -> None:
    Client(inner).enqueue("mail", {})
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any) -> None:
        with inner.transaction():
            inner.execute("insert into sent values (1)")
        with pytest.raises(psycopg.errors.UniqueViolation), inner.transaction():
            inner.execute("insert into sent values (1)")

    assert [attempt.outcome for attempt in work_off(handlers, inner)] == ["done"]
    assert sent(inner) == [1]


@pytest.mark.parametrize(
    ("error", "outcome", "state"),
    [
        (Retry("later", delay=30), "retried", "delayed"),
        (Snooze(30), "snoozed", "delayed"),
        (Reject("never"), "rejected", "dead"),
        (ValueError("no"), "failed", "delayed"),
    ],
)
def test_outcomes(inner: Connection, error: Exception, outcome: str, state: str) -> None:
    job_id = Client(inner).enqueue("mail", {}).job_id
    assert work_off(raising(error), inner) == [Attempt("mail", job_id, outcome, None, error)]
    job = Client(inner).get_job(job_id)
    assert job is not None
    assert job.state == state
    assert work_off(raising(error), inner) == []


def test_what_is_enqueued_meanwhile_is_done_too(inner: Connection) -> None:
    client = Client(inner)
    client.admin.create_queue("bills")
    client.enqueue("bills", {"n": 1})
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any) -> None: ...

    @handlers.handler("bills")
    def bill(payload: Any) -> None:
        client.enqueue("mail", {})
        client.enqueue("mail", {}, delay=60)

    assert [(one.queue, one.outcome) for one in work_off(handlers, inner)] == [
        ("bills", "done"),
        ("mail", "done"),
    ]


def test_until_empty_moves_the_clock_to_retries_and_delays(
    inner: Connection, handlers: Handlers
) -> None:
    client = Client(inner)
    client.enqueue("mail", {"n": 1}, delay=timedelta(days=3), max_attempts=2)
    client.enqueue("mail", {"n": 1})
    assert [one.outcome for one in work_off(handlers, inner)] == ["done"]
    done = work_off(handlers, inner, until_empty=True)
    assert [one.outcome for one in done] == ["failed", "failed"]
    assert [letter.attempt for letter in client.jobs.dead_letters("mail")] == [2]
    assert client.jobs.peek_jobs("mail") == []


def test_until_empty_leaves_what_is_held_back(inner: Connection) -> None:
    """And does not wait in vain for it: others come later."""
    client = Client(inner)
    client.admin.create_queue("slow", max_leased=1)
    client.enqueue_batch("slow", [1, 2])
    (held,) = client.claim_job("slow", lease=timedelta(days=1))
    client.admin.create_queue("idle")
    client.enqueue("idle", {})
    client.admin.pause_queue("idle")
    client.enqueue("mail", {}, delay=60)
    handlers = Handlers()

    def nothing(payload: Any) -> None: ...

    for queue in ("slow", "idle", "mail"):
        handlers.handler(queue)(nothing)
    assert [one.queue for one in work_off(handlers, inner, until_empty=True)] == ["mail"]
    assert client.ack(held.job_id, held.lease_token)
    assert [one.queue for one in work_off(handlers, inner, until_empty=True)] == ["slow"]
    assert len(client.jobs.peek_jobs("idle")) == 1


def test_until_empty_meets_jobs_that_become_due_meanwhile(inner: Connection) -> None:
    """Between a claim that finds nothing and the question when to go on."""
    client = Client(inner)
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any) -> None: ...

    for number in range(100):  # some of the second ones meet that moment
        client.enqueue("mail", {}, delay=60)
        client.enqueue("mail", {}, delay=60 + number / 10_000)
        assert len(work_off(handlers, inner, until_empty=True)) == 2


def test_jobs_that_never_end(inner: Connection) -> None:
    Client(inner).enqueue("mail", {})
    with pytest.raises(RuntimeError, match=r"no end after 20 rounds; .*'released'"):
        work_off(raising(Release()), inner, limit=20)
    with pytest.raises(RuntimeError, match=r"no end after 20 rounds; .*'snoozed'"):
        work_off(raising(Snooze(1)), inner, limit=20, until_empty=True)


def test_a_lost_connection_is_an_error(inner: Connection) -> None:
    """Not something to wait for."""
    Client(inner).enqueue("mail", {})
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any) -> None:
        inner.execute("select pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(psycopg.OperationalError):
        work_off(handlers, inner)


def test_errors_are_raised_when_asked_for(inner: Connection) -> None:
    job_id = Client(inner).enqueue("mail", {}).job_id
    with pytest.raises(ZeroDivisionError):
        work_off(raising(ZeroDivisionError()), inner, raise_errors=True)
    job = Client(inner).get_job(job_id)
    assert job is not None
    assert job.last_error == "ZeroDivisionError"
    Client(inner).enqueue("mail", {})
    (attempt,) = work_off(raising(Retry(delay=9)), inner, raise_errors=True)
    assert attempt.outcome == "retried"


def test_what_ends_a_test_is_raised(inner: Connection) -> None:
    Client(inner).enqueue("mail", {})
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any) -> None:
        pytest.fail("no mail in this test")

    with pytest.raises(pytest.fail.Exception, match="no mail"):
        work_off(handlers, inner)


def test_bad_input(inner: Connection) -> None:
    with pytest.raises(TypeError, match=r"handlers is a dict, must be pgq\.worker\.Handlers"):
        work_off({}, inner)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no handler"):
        work_off(Handlers(), inner)
    with pytest.raises(TypeError, match=r"Client takes a psycopg\.Connection, not a str"):
        work_off(raising(OSError()), "postgresql://")  # type: ignore[arg-type]
    with pytest.raises(UnknownQueue, match='queue "nowhere" does not exist'):
        work_off(raising(OSError(), "nowhere"), inner)
    handlers = Handlers()

    @handlers.handler("mail")
    async def send(payload: Any) -> None: ...

    with pytest.raises(TypeError, match="is a coroutine function"):
        work_off(handlers, inner)


def test_a_thousand_jobs(inner: Connection, handlers: Handlers) -> None:
    """Some 1 s: a bound that only something quadratic reaches."""
    Client(inner).enqueue_batch("mail", [{"n": n} for n in range(1000)])
    began = time.monotonic()
    assert len(work_off(handlers, inner)) == 1000
    assert time.monotonic() - began < 20
    assert sent(inner) == [*range(1000)]
