"""topics, groups, queues, subscriptions, schedules: what is made, shown, changed and dropped."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime, timedelta

import pytest

from pgq import Client, Group, GroupLag, Queue, QueueStats, Schedule, Subscription, Topic
from support.command import Run


def test_topics(pgq: Run, client: Client) -> None:
    assert pgq("topics", "list").out == "no topics\n"
    assert pgq("topics", "list", "--json").json == []
    made = pgq(
        "topics",
        "create",
        "orders",
        "--partitions",
        "3",
        "--retention",
        "36h",
        "--notify",
        "--json",
    )
    assert made.status == 0, made.err
    assert (made.json["partitions"], made.json["retention"]) == (3, "1 day 12:00:00")
    [topic] = client.admin.list_topics()
    assert (topic.retention, topic.notify) == (timedelta(hours=36), True)
    assert pgq("topics", "create", "orders", "--partitions", "3").status == 0
    other = pgq("topics", "create", "orders", "--partitions", "4")
    assert other.status == 1
    assert other.err.startswith('pgq: topic "orders" already exists')
    assert len(other.err.splitlines()) == 1
    assert pgq("topics", "alter", "orders", "--no-limit", "retention").status == 0
    assert client.admin.list_topics()[0].retention is None
    client.publish_batch("orders", [1, 2, 3], keys=["a", "b", "c"])
    shown = pgq("topics", "show", "orders", "--json").json
    assert {field.name for field in fields(Topic)} < set(shown)
    assert sum(part["messages"] for part in shown["stats"]) == 3
    header, _, line = pgq("topics", "list").lines
    assert header.split()[:2] == ["topic", "partitions"]
    assert line.split()[:2] == ["orders", "3"]
    for family in ("topic", "queue"):
        assert pgq(f"{family}s", "show", "mial").err == (
            f'pgq: unknown {family} "mial"; HINT: pgq {family}s create creates it; if it exists, '
            "this role needs pgq access grant.\n"
        )


def test_times_are_local_and_json_has_the_names_of_columns(
    pgq: Run, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        topic = client.admin.create_topic("orders")
        [row] = pgq("topics", "list", "--json").json
        assert set(row) == {field.name for field in fields(Topic)}
        assert row["created_at"].endswith("+05:30")
        assert datetime.fromisoformat(row["created_at"]) == topic.created_at
        shown = pgq("topics", "show", "orders").out
        assert f"{topic.created_at.astimezone():%Y-%m-%d %H:%M:%S} IST" in shown
    finally:
        monkeypatch.undo()
        time.tzset()


def test_nothing_is_dropped_unasked(pgq: Run, client: Client) -> None:
    client.admin.create_topic("orders", partitions=1)
    client.admin.create_group("orders", "billing")
    client.admin.create_queue("mail")
    client.admin.subscribe("all", "orders", "mail")
    client.schedules.create_schedule("tick", queue="mail", payload=1, cron="@daily")
    client.publish("orders", 1)
    kept = [
        (["topics", "drop", "orders"], "with 1 messages and 1 groups"),
        (["groups", "drop", "orders", "billing"], "1 messages behind"),
        (["queues", "drop", "mail"], "with 1 unfinished jobs"),
        (["subscriptions", "drop", "all"], "End subscription"),
        (["schedules", "drop", "tick"], "Drop schedule"),
        (["queues", "purge", "mail", "--all"], "all 1 unfinished jobs and 0 dead letters"),
        (["cancel", "--queue", "mail", "--all"], "Cancel 1 job of queue"),
    ]
    for arguments, told in kept:
        done = pgq(*arguments)
        assert done.status == 1
        assert told in done.err
        assert "nothing was done; HINT: say --yes" in done.err
    assert (len(client.admin.list_topics()), len(client.admin.list_groups())) == (1, 1)
    assert [row.ready for row in client.monitor.queue_stats()] == [1]
    assert (len(client.admin.list_subscriptions()), len(client.schedules.list_schedules())) == (
        1,
        1,
    )
    for arguments, _ in reversed(kept):
        done = pgq(*arguments, "--yes")
        assert done.status == 0, done.err
    assert not client.admin.list_topics()
    assert not client.admin.list_queues()
    assert not client.schedules.list_schedules()


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "drop", "nowhere"],
        ["topics", "drop", "nowhere", "--yes"],
        ["queues", "drop", "nowhere"],
        ["queues", "pause", "nowhere"],
        ["queues", "stats", "nowhere"],
        ["groups", "show", "nowhere", "g"],
        ["lag", "nowhere"],
        ["peek", "nowhere"],
        ["tail", "nowhere"],
        ["consume", "nowhere", "g"],
        ["redrive", "nowhere", "--all"],
        ["redrive", "nowhere", "--all", "--yes"],
        ["cancel", "--queue", "nowhere", "--all"],
        ["purge", "nowhere", "--all"],
        ["jobs", "nowhere"],
        ["schedules", "show", "nowhere"],
        ["seek", "nowhere", "g", "--start", "latest"],
        ["publish", "nowhere", "1"],
        ["enqueue", "nowhere", "1"],
    ],
    ids=" ".join,
)
def test_what_is_not_there(pgq: Run, arguments: list[str]) -> None:
    done = pgq(*arguments)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("pgq: ")
    assert "unknown " in done.err
    assert len(done.err.splitlines()) == 1


def test_groups_lag_and_seek(pgq: Run, client: Client) -> None:
    client.admin.create_topic("orders", partitions=2)
    client.admin.create_topic("dead")
    made = pgq("groups", "create", "orders", "billing", "--json").json
    assert set(made) == {field.name for field in fields(Group)}
    client.publish_batch("orders", list(range(10)), partition=1)
    lags = pgq("lag", "orders", "billing", "--json").json
    assert set(lags[0]) == {field.name for field in fields(GroupLag)}
    assert [row["lag"] for row in lags] == [0, 10]
    assert pgq("groups", "lag", "orders").out.count("billing") == 2
    moved = pgq(
        "seek", "orders", "billing", "--partition", "1", "--offset", "8", "--json"
    )  # fmt: skip
    assert moved.json == [{"partition": 1, "position": 8}]
    assert pgq("groups", "seek", "orders", "billing", "--start", "latest").status == 0
    assert [row.lag for row in client.monitor.group_lag()] == [0, 0]
    assert pgq("seek", "orders", "billing", "--at", "1h ago").status == 0
    assert [row.lag for row in client.monitor.group_lag()] == [0, 10]
    far = pgq("seek", "orders", "billing", "--partition", "1", "--offset", "99")
    assert far.status == 1
    assert "(" in far.err  # the offsets that there are
    unsaid = pgq("seek", "orders", "billing")
    assert (unsaid.status, unsaid.err) == (
        2, "pgq: --offset, --at, --start: exactly one is needed\n"
    )  # fmt: skip
    options = ["--max-attempts", "3", "--dead-letter-topic", "dead"]
    assert pgq("groups", "alter", "orders", "billing", *options).status == 0
    assert client.admin.list_groups("orders")[0].max_attempts == 3
    shown = pgq("groups", "show", "orders", "billing", "--json").json
    assert (shown["dead_letter_topic"], len(shown["lag"])) == ("dead", 2)
    assert pgq("lag", "orders", "nobody").status == 1


def test_queues(pgq: Run, client: Client) -> None:
    options = ["--lease", "2m", "--max-attempts", "7", "--ordered", "--rate-limit", "5"]
    made = pgq("queues", "create", "mail", *options, "--rate-interval", "500ms", "--json")
    assert made.status == 0, made.err
    assert set(made.json) == {field.name for field in fields(Queue)}
    assert (made.json["lease"], made.json["rate_interval"]) == ("00:02:00", "00:00:00.5")
    [queue] = client.admin.list_queues()
    assert (queue.lease, queue.max_attempts, queue.ordered) == (timedelta(minutes=2), 7, True)
    assert pgq("queues", "alter", "mail", "--no-limit", "rate_limit", "--no-archive").status == 0
    assert (client.admin.list_queues()[0].rate_limit, client.admin.list_queues()[0].archive) == (
        None,
        False,
    )
    assert pgq("queues", "pause", "mail").out == 'queue "mail" is paused\n'
    client.enqueue("mail", 1)
    [stats] = pgq("queues", "stats", "--json").json
    assert set(stats) == {field.name for field in fields(QueueStats)}
    assert (stats["ready"], stats["held_by"]) == (1, "paused")
    assert "paused" in pgq("queues", "list").out
    assert pgq("queues", "resume", "mail", "--json").json["paused"] is False
    assert pgq("queues", "show", "mail", "--json").json["stats"]["ready"] == 1
    assert "max attempts" in pgq("queues", "show", "mail").out


def test_subscriptions(pgq: Run, client: Client) -> None:
    client.admin.create_topic("orders")
    client.admin.create_queue("mail")
    where = '{"status": ["lost"]}'
    made = pgq("subscriptions", "create", "lost", "orders", "mail", "--filter", where, "--json")
    assert set(made.json) == {field.name for field in fields(Subscription)}
    assert pgq("subscriptions", "list", "--json").json == [made.json]
    assert made.json["filter"] == json.loads(where)
    wrong = pgq("subscriptions", "create", "x", "orders", "mail", "--filter", "{")
    assert wrong.err.startswith("pgq: --filter is not JSON")


def test_schedules(pgq: Run, client: Client) -> None:
    client.admin.create_queue("mail")
    made = pgq(
        *(
            "schedules",
            "create",
            "tick",
            "--queue",
            "mail",
            "--every",
            "10s",
            "--payload",
            "[1.10]",
        ),
        *("--starts-at", "2020-01-01T00:00Z", "--missed", "one", "--header", "a=1", "--json"),
    )
    assert made.status == 0, made.err
    assert set(made.json) == {field.name for field in fields(Schedule)}
    assert (made.json["every"], made.json["headers"]) == ("00:00:10", {"a": 1})
    assert pgq("schedules", "pause", "tick").status == 0
    assert pgq("schedules", "run").out == "nothing was due\n"
    assert pgq("schedules", "resume", "tick").status == 0
    [ran] = pgq("schedules", "run", "--json").json
    assert ran["schedule"] == "tick"
    assert client.monitor.queue_stats("mail")[0].ready == 1
    assert "tick" in pgq("schedules", "list").out
    assert pgq("schedules", "show", "tick", "--json").json["last_error"] is None
    times = pgq("schedules", "next", "0 3 * * *", "--limit", "2", "--json").json
    assert [one["tick_at"][14:16] for one in times] == ["00", "00"]
    past = datetime(2020, 1, 1).astimezone()
    client.schedules.create_schedule("lost", queue="mail", payload=1, cron="@daily", starts_at=past)
    client.admin.drop_queue("mail")
    failed = pgq("schedules", "run")
    assert failed.status == 1
    assert "mail" in failed.out


def test_cleanup(pgq: Run, client: Client) -> None:
    client.admin.create_topic("orders", partitions=1)
    client.admin.drop_topic("orders")
    done = pgq("cleanup", "--json")
    assert done.status == 0, done.err
    assert all(row["action"] != "more" for row in done.json)
    assert pgq("cleanup").status == 0


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("90", timedelta(seconds=90)),
        ("1h 30m", timedelta(minutes=90)),
        ("7 days", timedelta(days=7)),
        ("1 day 02:00:00.5", timedelta(days=1, hours=2, seconds=0.5)),
        ("1.5h", timedelta(minutes=90)),
        ("2weeks", timedelta(days=14)),
        ("250ms", timedelta(milliseconds=250)),
        ("", None),
        ("soon", None),
        ("1 fortnight", None),
        ("5m later", None),
    ],
)
def test_lengths_of_time(pgq: Run, client: Client, given: str, meant: timedelta | None) -> None:
    done = pgq("queues", "create", "mail", "--backoff-max", given, "--backoff", given)
    if meant is None:
        assert done.status == 2
        assert "30s" in done.err
    else:
        assert done.status == 0, done.err
        assert client.admin.list_queues()[0].backoff == meant


KEPT = [
    ("topics", "create", "events", "--retention"),
    ("topics", "create", "events", "--idempotency-window"),
    ("queues", "create", "mail", "--retention"),
    ("queues", "create", "mail", "--job-ttl"),
    ("queues", "create", "mail", "--idempotency-window"),
    ("queues", "create", "mail", "--rate-interval"),
    ("queues", "create", "mail", "--debounce-max"),
    ("schedules", "create", "nightly", "--queue", "mail", "--every"),
    ("doctor", "--older-than"),
]


@pytest.mark.parametrize("command", KEPT, ids=" ".join)
def test_what_is_kept_so_long_needs_a_unit(pgq: Run, command: tuple[str, ...]) -> None:
    done = pgq(*command, "3")
    assert done.status == 2
    assert "'3' has no unit: say 3s, 3h, '3 days'" in " ".join(done.err.replace("│", "").split())


@pytest.mark.parametrize("option", ["--lease", "--delay", "--backoff", "--backoff-max"])
def test_what_waits_takes_seconds(pgq: Run, client: Client, option: str) -> None:
    assert pgq("queues", "create", "mail", option, "1.5").status == 0
    name = option.removeprefix("--").replace("-", "_")
    assert getattr(client.admin.list_queues()[0], name) == timedelta(seconds=1.5)


def test_a_topic_that_exists_already(pgq: Run) -> None:
    first = pgq("topics", "create", "orders")
    again = pgq("topics", "create", "orders")
    assert again.lines == ['topic "orders" exists already', *first.lines]
    assert pgq("topics", "create", "orders", "--json").json["topic"] == "orders"


def test_a_queue_that_exists_already(pgq: Run) -> None:
    first = pgq("queues", "create", "mail")
    again = pgq("queues", "create", "mail")
    assert again.lines == ['queue "mail" exists already', *first.lines]
    assert pgq("queues", "create", "mail", "--json").json["queue"] == "mail"
    other = pgq("queues", "create", "mail", "--lease", "7s")
    assert other.status == 1
    assert other.err.startswith('pgq: queue "mail" already exists')
    assert other.out == ""
