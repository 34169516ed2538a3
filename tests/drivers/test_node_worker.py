"""The worker in TypeScript: the cases of the protocol, its end, and leases that it loses."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client
from support.drivers import environment
from support.node import NodeWorker, node
from support.pooler import PgBouncer
from support.protocol import CASES
from support.session import Connect
from support.waiting import PATIENCE, wait_until
from support.working import kill_backends, unreachable

pytestmark = pytest.mark.slow


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", backoff=timedelta(milliseconds=10), keep_results=True)
    return client


def _ended(client: Client, job_id: int, state: str = "finished") -> Any:
    """The result of a job, when it has ended."""

    def look() -> Any:
        found = client.get_result(job_id)
        return found if found.state == state else None

    return wait_until(look, PATIENCE, f"for job {job_id} to be {state}").result


def _sleeps(client: Client) -> bool:
    """Whether the last call of an idle worker has been answered: when a job is due."""
    [(query, state)] = client.connection.execute(
        "select query, state from pg_stat_activity where application_name = 'pgq_test_node'"
        " and query not like '%heartbeat%' order by query_start desc limit 1"
    ).fetchall()
    return "next_due" in query and state == "idle"


def _cases(programs: Path, dsn: str, *files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node(), str(programs / "cases.js"), *map(str, files)],
        env=environment(dsn),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_cases_of_the_protocol(programs: Path, dsn: str) -> None:
    files = sorted(CASES.iterdir())
    done = _cases(programs, dsn, *files)
    named = [each["scenario"] for path in files for each in json.loads(path.read_text())]
    assert done.stdout.splitlines() == [f"{name}: ok" for name in named], done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    "planted",
    [{"returns": []}, {"returns": ["MQ002"]}, {"error": "MQ003"}, {}],
    ids=["no row", "a row", "another error", "no error"],
)
def test_a_wrong_case_fails(programs: Path, dsn: str, tmp_path: Path, planted: Any) -> None:
    step = {"call": "claim_job", "with": {"queue": "$queue"}}
    for name, expected in (("right", {"error": "MQ002"}), ("wrong", planted)):
        steps = [{"scenario": name, "steps": [step | expected]}]
        (tmp_path / f"{name}.json").write_text(json.dumps(steps))
    done = _cases(programs, dsn, tmp_path / "right.json", tmp_path / "wrong.json")
    right, wrong = done.stdout.splitlines()
    assert (right, done.returncode) == ("right: ok", 1)
    assert wrong.startswith("wrong: step 1: expected")


@pytest.mark.parametrize("pooled", [False, True], ids=["directly", "through PgBouncer"])
def test_what_a_handler_says_is_done(
    programs: Path, dsn: str, client: Client, pgbouncer: PgBouncer, pooled: bool
) -> None:
    jobs = {
        "value": {"value": {"size": [1, None]}},
        "none": {},
        "fail": {"do": "fail"},
        "retry": {"do": "retry"},
        "snooze": {"do": "snooze", "delay": 0.01},
        "reject": {"do": "reject"},
        "late": {"do": "snooze", "delay": 3e7},
        "nul": {"do": "nul"},
    }
    ids = {name: client.enqueue("mail", payload).job_id for name, payload in jobs.items()}
    place = pgbouncer.dsn if pooled else dsn
    with NodeWorker(programs, place, "mail", concurrency=2, poll=0.2) as worker:
        assert _ended(client, ids["value"]) == {"size": [1, None]}
        assert _ended(client, ids["none"]) is None
        assert _ended(client, ids["fail"]) == "second"
        assert _ended(client, ids["retry"]) == "second"
        assert _ended(client, ids["snooze"]) == "later"
        _ended(client, ids["reject"], "failed")
        assert _ended(client, ids["late"]) == "later"
        _ended(client, ids["nul"], "failed")
        worker.stop()
        worker.join()
    failed = ("fail", "retry", "reject", "late", "nul")
    errors = {name: client.jobs.job_history(ids[name])[0].error for name in failed}
    assert errors["fail"] == "no luck: \\0"
    assert errors["retry"] == "busy"
    assert errors["reject"] == "no such place"
    assert "expire" in (errors["late"] or "")
    assert errors["nul"] == "unsupported Unicode escape sequence"
    assert client.jobs.job_history(ids["fail"])[0].worker
    assert worker.events.count(("begin", ids["snooze"], 1)) == 2
    assert client.monitor.list_workers() == []


def test_an_idle_worker_hears_of_jobs_and_knows_when_one_is_due(
    programs: Path, dsn: str, client: Client
) -> None:
    client.admin.alter_queue("mail", notify=True)
    with NodeWorker(programs, dsn, "mail", poll=600) as worker:
        wait_until(client.monitor.list_workers, PATIENCE)
        assert _ended(client, client.enqueue("mail", {"value": 1}).job_id) == 1
        delayed = client.enqueue("mail", {"value": 2}, delay=timedelta(seconds=0.5))
        assert _ended(client, delayed.job_id) == 2
        wait_until(lambda: _sleeps(client), PATIENCE)
        assert kill_backends(client.connection, "pgq_test_node") > 1
        assert _ended(client, client.enqueue("mail", {"value": 3}).job_id) == 3
        worker.stop()
        worker.join()


def test_sigterm_lets_a_job_end_and_begins_no_other(
    programs: Path, dsn: str, client: Client
) -> None:
    first = client.enqueue("mail", {"do": "wait"}).job_id
    second = client.enqueue("mail", {"value": 2}).job_id
    with NodeWorker(programs, dsn, "mail") as worker:
        worker.wait_for("begin", first)
        worker.stop()
        worker.open_gate()
        worker.join()
    assert client.get_result(first).result == "waited"
    assert worker.events == [("begin", first, 1)]
    [job] = client.claim_job("mail")
    assert (job.job_id, job.attempt) == (second, 1)


def test_a_claim_that_comes_after_sigterm_is_given_back(
    programs: Path, dsn: str, client: Client, connect: Connect
) -> None:
    """Claims of a limited queue wait for each other, so this one is answered after the signal."""
    client.admin.alter_queue("mail", max_leased=9)
    job_id = client.enqueue("mail", {"value": 1}).job_id
    holder = connect()
    assert holder.claim_job(queue="mail")
    waiting = (
        "select from pg_stat_activity where application_name = 'pgq_test_node'"
        " and wait_event_type = 'Lock'"
    )
    with NodeWorker(programs, dsn, "mail") as worker:
        wait_until(lambda: client.connection.execute(waiting).fetchall(), PATIENCE)
        worker.stop()
        holder.rollback()
        worker.join()
    assert worker.events == []
    [job] = client.claim_job("mail")
    assert (job.job_id, job.attempt) == (job_id, 1)


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_second_sigterm_gives_back_what_runs(
    programs: Path, dsn: str, client: Client, attempts: int
) -> None:
    job_id = client.enqueue("mail", {"do": "wait"}, max_attempts=attempts).job_id
    with NodeWorker(programs, dsn, "mail") as worker:
        worker.wait_for("begin", job_id)
        worker.stop()
        worker.stop()
        worker.join()
    assert worker.events[1:] == [("the worker was stopped", job_id, 1)]
    job = client.get_job(job_id)
    assert job is not None
    expected = ("dead", 1, "the worker was stopped") if attempts == 1 else ("ready", 0, None)
    assert (job.state, job.attempt, job.last_error) == expected


def test_the_end_of_grace_is_a_second_signal(programs: Path, dsn: str, client: Client) -> None:
    job_id = client.enqueue("mail", {"do": "wait"}).job_id
    with NodeWorker(programs, dsn, "mail", grace=0.1) as worker:
        worker.wait_for("begin", job_id)
        worker.stop()
        worker.join()
    job = client.get_job(job_id)
    assert job is not None
    assert (job.state, job.attempt) == ("ready", 0)


def test_a_lease_is_extended_while_its_handler_runs(
    programs: Path, dsn: str, client: Client
) -> None:
    job_id = client.enqueue("mail", {"do": "wait"}).job_id
    with NodeWorker(programs, dsn, "mail", lease=5) as worker:
        worker.wait_for("begin", job_id)
        first = client.get_job(job_id)
        assert first is not None
        until = first.leased_until
        assert until is not None
        # another lease later the job is still the same worker's
        now = "select clock_timestamp() > %s"
        wait_until(lambda: client.connection.execute(now, [until]).fetchone() == (True,), PATIENCE)
        assert client.claim_job("mail") == []
        worker.open_gate()
        assert _ended(client, job_id) == "waited"
    assert worker.events == [("begin", job_id, 1)]


def test_a_lost_lease_aborts_the_signal_and_the_worker_goes_on(
    programs: Path, dsn: str, client: Client
) -> None:
    job_id = client.enqueue("mail", {"do": "wait"}).job_id
    with NodeWorker(programs, dsn, "mail", lease=6) as worker:
        worker.wait_for("begin", job_id)
        assert client.cancel_job(job_id)
        worker.wait_for("the lease was lost", job_id)
        assert _ended(client, client.enqueue("mail", {"value": 2}).job_id) == 2
        worker.stop()
        worker.join()
    assert client.get_result(job_id).state == "cancelled"


def test_a_lost_job_is_not_finished_and_the_next_one_is_claimed(
    programs: Path, dsn: str, client: Client
) -> None:
    """Without a result it is finished with the next claim, which refuses both."""
    client.admin.alter_queue("mail", keep_results=False)
    job_id = client.enqueue("mail", {"do": "wait"}).job_id
    with NodeWorker(programs, dsn, "mail") as worker:
        worker.wait_for("begin", job_id)
        assert client.cancel_job(job_id)
        following = client.enqueue("mail", {}).job_id
        worker.open_gate()
        worker.wait_for("begin", following)
        worker.stop()
        worker.join()
    ends = {job.job_id: job.outcome for job in client.jobs.archived_jobs("mail")}
    assert ends == {job_id: "cancelled", following: "acked"}


def test_a_lease_that_nobody_could_extend_is_lost(programs: Path, dsn: str, client: Client) -> None:
    job_id = client.enqueue("mail", {"do": "wait"}).job_id
    with NodeWorker(programs, dsn, "mail", lease=1) as worker:
        worker.wait_for("begin", job_id)
        with unreachable(client.connection, dsn, "pgq_test_node"):
            worker.wait_for("the lease ran out", job_id)
        worker.wait_for("begin", job_id, 2)
        worker.open_gate()
        assert _ended(client, job_id) == "waited"


def test_a_queue_that_does_not_exist(programs: Path, dsn: str) -> None:
    with NodeWorker(programs, dsn, "nowhere") as worker:
        assert worker.process.wait(PATIENCE) == 1
