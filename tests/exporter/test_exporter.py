"""The exporter: what it serves, and what it does while the database is away."""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgq.exporter import Exporter, serve
from support.session import Connect, Session
from support.waiting import PATIENCE, aside, wait_until
from support.working import kill_backends, unreachable

ROLE = "pgq_test_exporter"


@pytest.fixture
def exporter(shared_dsn: str) -> Iterator[Exporter]:
    with Exporter(shared_dsn, port=0) as running:
        yield running


def get(exporter: Exporter, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, content type and text of an answer."""
    request = urllib.request.Request(exporter.address + path, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_what_it_serves(exporter: Exporter, log: Session) -> None:
    status, kind, text = get(exporter, "/metrics?collect=all")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"pgq_info", "pgq_jobs_created", "pgq_table_bytes"} <= names
    assert get(exporter, "/health")[::2] == (200, "ok\n")
    assert get(exporter, "/metrics", "HEAD")[::2] == (200, "")
    assert get(exporter, "/")[0] == 200
    assert get(exporter, "/elsewhere")[0] == 404
    assert get(exporter, "/metrics", "DELETE")[0] == 501


def test_many_at_once(exporter: Exporter, log: Session) -> None:
    """They share one connection."""
    answers = [aside(lambda: get(exporter, "/metrics")[0]) for _ in range(12)]
    assert {answer.result(PATIENCE) for answer in answers} == {200}
    assert kill_backends(log, "pgq exporter") == 1


def test_a_connection_that_was_lost(exporter: Exporter, log: Session) -> None:
    """Nobody notices."""
    for _ in range(3):
        assert get(exporter, "/metrics")[0] == 200
        assert kill_backends(log, "pgq exporter") == 1


def test_the_database_goes_and_comes_back(
    exporter: Exporter, log: Session, shared_dsn: str
) -> None:
    assert get(exporter, "/health")[0] == 200
    with unreachable(log, shared_dsn, "pgq exporter"):
        for path in ("/metrics", "/health"):
            status, _, text = get(exporter, path)
            assert status == 503
            assert text.startswith("the database does not answer: ")
            assert text.count("\n") == 1
    assert get(exporter, "/metrics")[0] == 200


def test_a_database_that_was_never_there(shared_dsn: str) -> None:
    with Exporter(make_conninfo(shared_dsn, dbname="nowhere"), port=0) as exporter:
        status, _, text = get(exporter, "/metrics")
    assert (status, "nowhere" in text) == (503, True)


def test_a_database_without_pgq(shared_dsn: str) -> None:
    with Exporter(make_conninfo(shared_dsn, dbname="postgres"), port=0) as exporter:
        assert get(exporter, "/metrics")[::2] == (
            503,
            "this database has no pgq, or one without metrics\n",
        )


def test_a_role_that_may_not(shared_dsn: str, log: Session) -> None:
    try:
        log.execute(f"create role {ROLE}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    try:
        log.execute(f"grant usage on schema pgq to {ROLE}")
        dsn = make_conninfo(shared_dsn, options=f"-c role={ROLE}")
        with Exporter(dsn, port=0) as exporter:
            said = get(exporter, "/metrics")[::2]
            assert said == (503, "the role may not call pgq.metrics_text\n")
            log.execute(f"grant execute on function pgq.metrics_text() to {ROLE}")
            status, _, text = get(exporter, "/metrics")
            assert (status, "pgq_info" in text) == (200, True)
    finally:
        log.execute(f"drop owned by {ROLE}")
        log.execute(f"drop role {ROLE}")


def test_an_answer_that_takes_too_long(
    shared_dsn: str, shared_connect: Connect, log: Session
) -> None:
    with shared_connect() as holder, Exporter(shared_dsn, port=0, timeout=2) as exporter:
        holder.execute("lock table pgq.worker in access exclusive mode")
        status, _, text = get(exporter, "/metrics")
        assert (status, "timeout" in text) == (503, True)
        holder.rollback()
        assert get(exporter, "/metrics")[0] == 200


def test_serve(shared_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is told to stop; a port that is taken is an error at once."""
    started: list[Exporter] = []
    run = Exporter.run

    def running(exporter: Exporter) -> None:
        started.append(exporter)
        run(exporter)

    monkeypatch.setattr(Exporter, "run", running)
    ended = threading.Event()

    def work() -> None:
        serve(shared_dsn, port=0)
        ended.set()

    future = aside(work)
    wait_until(lambda: started, PATIENCE)
    assert get(started[0], "/health")[0] == 200
    port = int(started[0].address.rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        serve(shared_dsn, port=port)
    started[0].stop()
    future.result(PATIENCE)
    assert ended.is_set()
    with pytest.raises(ValueError, match="timeout is 0"):
        serve(shared_dsn, timeout=0)


def test_it_keeps_no_transaction_open(exporter: Exporter, log: Session) -> None:
    assert get(exporter, "/metrics")[0] == 200
    [(state,)] = log.execute(
        sql.SQL("select state from pg_stat_activity where application_name = 'pgq exporter'")
    ).fetchall()
    assert state == "idle"


def test_under_which_names_it_is_asked(shared_dsn: str) -> None:
    """A page of others whose name is made to lead here gets nothing."""

    def status(exporter: Exporter, host: str) -> int:
        port = exporter.address.rpartition(":")[2]
        asked = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)
        asked.request("GET", "/metrics", headers={"Host": host})
        answer = asked.getresponse()
        assert (answer.read().count(b"pgq_info") > 0) == (answer.status == 200)
        asked.close()
        return answer.status

    good = ["127.0.0.1", "127.0.0.1:9187", "localhost", "LOCALHOST:1", "[::1]:80", "10.0.0.7:9187"]
    bad = ["evil.example", "evil.example:9187", "127.0.0.1.evil.example", "", "[evil", "[::1]evil"]
    own = socket.gethostname()
    with Exporter(shared_dsn, port=0) as exporter:
        assert {host: status(exporter, host) for host in good} == dict.fromkeys(good, 200)
        assert {host: status(exporter, host) for host in bad} == dict.fromkeys(bad, 400)
        assert status(exporter, own) == 400
    with Exporter(shared_dsn, host="0.0.0.0", port=0, hosts=["Pgq.example"]) as exporter:
        assert [status(exporter, host) for host in (own, "pgq.example:80", bad[0])] == [
            200,
            200,
            400,
        ]
    with Exporter(shared_dsn, port=0, hosts=["*"]) as exporter:
        assert status(exporter, "evil.example") == 200
