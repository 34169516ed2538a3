"""The dashboard and the alerts: every expression finds something, in a real Prometheus."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pgq.exporter import Exporter
from support.clock import Clock
from support.house import ROOT, refuse
from support.prometheus import Prometheus, program
from support.queue import claim_one, enqueue
from support.session import Connect, Session
from support.waiting import PATIENCE, wait_until

FOLDER = ROOT / "sql" / "addons" / "metrics"
ALERTS = FOLDER / "alerts.yml"
DASHBOARD = json.loads((FOLDER / "grafana.json").read_text())
SLOT = "pgq_test_dashboard"


def panels() -> list[Any]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    """What the panels show, with all topics and queues chosen."""
    return [
        re.sub(r"\$(topic|queue)\b", ".*", target["expr"]).replace("$__rate_interval", "1m")
        for panel in panels()
        for target in panel["targets"]
    ]


def alerts() -> dict[str, str]:
    """The expressions of the alerts by their names."""
    rules = re.findall(r"^ +- alert: (\w+)\n +expr: (.+)$", ALERTS.read_text(), re.MULTILINE)
    assert len(rules) == ALERTS.read_text().count("alert:")
    return dict(rules)


def used(expression: str) -> set[str]:
    return set(re.findall(r"\bpgq_\w+", expression))


def test_they_know_the_metrics(connection: Session) -> None:
    """No name is made up, and the dashboard and the guide leave none out."""
    described = {name for (name,) in connection.execute("select name from pgq._describe_metrics()")}
    shown = set().union(*map(used, expressions()))
    assert shown == described
    assert set().union(*map(used, alerts().values())) <= described
    guide = (FOLDER / "README.md").read_text()
    refuse(name for name in described if f"`{name}`" not in guide)
    refuse(name for name in alerts() if f"`{name}`" not in guide)
    refuse(name for name in alerts() if name not in (FOLDER / "alerts_test.yml").read_text())


def test_the_dashboard_is_sound() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len({*ids}) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    assert max(x for x, _ in taken) < 24


def test_promtool_accepts_the_alerts() -> None:
    """And each is raised when it should be, and only then: alerts_test.yml."""
    promtool = program("promtool")
    for words in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
        done = subprocess.run([promtool, *words], cwd=FOLDER, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def busy(connect: Connect, connection: Session, clock: Clock) -> Iterator[Session]:
    """Something of all that is watched, and nearly all that is an alarm."""
    connection.create_topic(topic="t", partitions=2, retention="1 hour")
    connection.create_topic(topic="dead", partitions=1)
    limit = {"max_attempts": 3, "dead_letter_topic": "dead"}
    connection.create_group(topic="t", consumer_group="g", **limit)
    connection.publish_batch(topic="t", payloads=[1, 2, 3])
    [leased, *_] = connection.poll(topic="t", consumer_group="g")
    connection.nack_offsets(
        topic="t", consumer_group="g", partition=leased.partition, lease_token=leased.lease_token
    )
    connection.create_topic(topic="d", deferred=True)
    connection.publish(topic="d", payload=1)
    for queue in ("q", "late", "paused", "lost"):
        connection.create_queue(queue=queue)
        enqueue(connection, queue, 1)
    connection.pause_queue(queue="paused")
    connection.create_schedule(schedule="s", queue="lost", payload=1, every="1 minute")
    connection.drop_queue(queue="lost")
    connection.heartbeat(worker='mill "1"')
    connection.execute(
        "insert into pgq.cleanup_failure"
        " (part, object, failed_since, tried_at, error_code, error)"
        " select 'jobs', 1, pgq._clock(), pgq._clock(), '22P02', 'damaged'"
    )
    clock.advance("50 minutes")
    connection.run_schedules()
    job = claim_one(connection, "q")
    connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    connection.execute("select pg_create_physical_replication_slot(%s, true)", [SLOT])
    holder = connect(application_name="holder")
    holder.execute("select pg_current_xact_id()")
    yield connection
    holder.rollback()
    connection.execute("select pg_drop_replication_slot(%s)", [SLOT])


@pytest.mark.slow
def test_every_expression_finds_something(busy: Session, emptied_dsn: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        exporter = stack.enter_context(Exporter(emptied_dsn, port=0))
        target = exporter.address.removeprefix("http://")
        prometheus = stack.enter_context(Prometheus(target, tmp_path, ALERTS))
        busy_queue = {"queue": "q", "payload": 1}
        for expression in expressions():
            found = wait_until(
                lambda: prometheus.query(expression),  # noqa: B023
                PATIENCE,
                f"for {expression}",
            )
            assert all(len(series["value"]) == 2 for series in found)
        busy.enqueue(**busy_queue)
        job = claim_one(busy, "q")
        busy.reject_job(job_id=job.job_id, lease_token=job.lease_token)
        wait_until(lambda: not silent(prometheus), PATIENCE, "for the alerts")
        assert len(prometheus.get("rules")["groups"][0]["rules"]) == len(alerts())


def silent(prometheus: Prometheus) -> list[str]:
    """The alerts that are not raised, but for those that cannot be here: these have figures."""
    without = {
        "PgqTransactionOpen", "PgqSlotKeepsLog", "PgqDeadRows", "PgqMetricsSlow", "PgqFloorLag",
    }  # fmt: skip
    return [
        name
        for name, expression in alerts().items()
        if bool(
            prometheus.query(
                re.sub(r" [<>] [\d.e]+", "", expression) if name in without else expression
            )
        )
        == (name == "PgqNoMetrics")
    ]
