"""metrics, workers, top without a terminal."""

from __future__ import annotations

import io
import os
import re
import signal
import time
import urllib.request
from dataclasses import fields
from datetime import datetime, timezone

import pytest
from rich.console import Console

from pgq import Client, Metric, WorkerInfo
from pgq.cli._top import _sections
from support.command import Run, Start
from support.waiting import PATIENCE
from support.working import role_for


def test_metrics(pgq: Run, client: Client) -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="no prometheus_client")
    client.admin.create_topic("orders", partitions=1)
    client.publish("orders", 1)
    families = {one.name: one for one in parser.text_string_to_metric_families(pgq("metrics").out)}
    [sample] = families["pgq_topic_published"].samples
    assert (sample.labels["topic"], sample.value) == ("orders", 1)
    rows = pgq("metrics", "--json").json
    assert set(rows[0]) == {field.name for field in fields(Metric)}
    [row] = [row for row in rows if row["name"] == "pgq_topic_published_total"]
    assert (row["labels"]["topic"], row["value"]) == ("orders", 1)
    assert pgq("metrics", "--listen", "nonsense").err == (
        "pgq: --listen nonsense is not of the form HOST:PORT\n"
    )


def test_metrics_are_served(client: Client, process: Start) -> None:
    import socket

    client.admin.create_topic("orders", partitions=1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = process("metrics", "--listen", f"127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                    text = answer.read().decode()
                break
            except OSError:
                assert time.monotonic() < deadline
                assert running.poll() is None, running.stderr.read()
                time.sleep(0.05)
        assert 'pgq_topic_published_total{topic="orders"} 0' in text
    finally:
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) in (0, 130)
        assert b"Traceback" not in running.stderr.read()


def test_workers(pgq: Run, client: Client) -> None:
    client.heartbeat("w-1", kind="worker", host="h", pid=os.getpid(), sources=["mail"], running=2)
    try:
        [row] = pgq("workers", "--json").json
        assert set(row) == {field.name for field in fields(WorkerInfo)}
        assert (row["worker"], row["sources"], row["stale"]) == ("w-1", ["mail"], False)
        assert "w-1" in pgq("workers").out
    finally:
        client.monitor.delete_worker("w-1")
    assert pgq("workers").out == "no workers\n"


def test_top_without_a_terminal(pgq: Run, client: Client) -> None:
    # the rate is read from the end of the archive: no room that others have left before it
    client.connection.execute("truncate pgq.job_archive")
    client.admin.create_topic("orders", partitions=2)
    client.admin.create_group("orders", "billing")
    client.publish_batch("orders", [1, 2, 3])
    client.admin.create_queue("mail")
    client.enqueue_batch("mail", [1] * 60)
    jobs = client.claim_job("mail", max_jobs=60)
    client.ack_batch([job.job_id for job in jobs], jobs[0].lease_token)
    first, second = pgq("top", "--count", "2", "--interval", "0.1", "--json").json_lines
    assert first["topics"] == [{"topic": "orders", "published_per_second": None, "messages": 3}]
    assert second["topics"][0]["published_per_second"] == 0
    [group] = second["groups"]
    assert (group["consumed_per_second"], group["lag"]) == (0, 3)
    [queue] = second["queues"]
    assert queue["ready"] == 0
    assert queue["finished_per_second"] == 1
    once = pgq("top", "--count", "1").out
    assert "orders" in once
    assert "q leaves" not in once
    assert "HINT: --count" in pgq("top").err
    # a blank line before each table, and ages in seconds
    shown = [line.strip() for line in pgq("top", "--count", "1").lines]
    assert [shown[shown.index(title) - 1] for title in ("topics", "groups", "queues")] == [""] * 3
    client.enqueue("mail", 1)
    assert re.search(r" \d+(\.\d)?s ago", pgq("top", "--count", "1").out)


def test_status(pgq: Run, client: Client) -> None:
    assert pgq("status").lines[1:] == ["", "no topics", "", "no groups", "", "no queues"]
    client.admin.create_topic("orders", partitions=2)
    client.admin.create_group("orders", "billing")
    client.publish_batch("orders", [1, 2, 3])
    client.admin.create_queue("mail")
    client.enqueue("mail", 1)
    found = pgq("status", "--json").json
    assert found["version"] == client.version()
    [topic], [group], [queue] = found["topics"], found["groups"], found["queues"]
    assert (topic["partitions"], topic["messages"], topic["published_last_minute"]) == (2, 3, 3)
    assert (group["consumer_group"], group["lag"], group["partitions_leased"]) == ("billing", 3, 0)
    assert (queue["queue"], queue["ready"], queue["held_by"]) == ("mail", 1, None)


def test_status_counts_up_to_a_limit(
    pgq: Run, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a role that may not call metrics, which estimates."""
    client.admin.create_queue("mail")
    client.admin.create_queue("work")
    client.enqueue("mail", 1)
    client.enqueue_batch("work", [1] * 20)
    monkeypatch.setattr("pgq._sampling.MOST_OF_ALL", 10)
    role = "pgq_test_onlooker"
    with role_for(client, role, ["version", "list_topics"]):
        client.connection.execute(f"grant select on all tables in schema pgq to {role}".encode())
        monkeypatch.setenv("PGOPTIONS", f"-c role={role}")
        found = pgq("status", "--json").json["queues"]
        shown = pgq("status").out
    assert [(one["ready"], one["estimated"]) for one in found] == [(1, None), (10, "≥")]
    assert "≥ work" in shown
    assert "≥ mail" not in shown


def test_top_marks_what_was_not_counted() -> None:
    out = Console(width=100, file=io.StringIO())
    rows = [{"queue": "work", "estimated": "≥"}, {"queue": "mail", "estimated": None}]
    with out.capture() as shown:
        out.print(*_sections({"queues": rows}, datetime.now(timezone.utc), 100))
    assert "≥ work" in shown.get()
    assert "≥ mail" not in shown.get()
