"""A consumer whose role lacks a right polls nothing: at its start, and while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.__main__ import main
from pgq.consumer import AsyncConsumer, Consumer
from pgq.consumer._grants import EXECUTE
from support.clock import Clock
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import Started, looks, role_for, working

Kind = type[Consumer] | type[AsyncConsumer]
As = Callable[[Callable[..., Any]], Callable[..., Any]]
ROLE = "pgq_test_consumer"
OPTIONAL = {"next_poll", "heartbeat"}
MESSAGES = 24
SLOTS = 2
SIZE = 3
LACKS = f"role {ROLE} lacks rights that a consumer needs, so nothing is polled; HINT: "


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


@pytest.fixture(autouse=True)
def role(client: Client) -> Iterator[None]:
    """It may do what consumers need."""
    client.admin.create_topic("dead", partitions=1)
    with role_for(client, ROLE, EXECUTE):
        yield


@pytest.fixture
def revoke(dsn: str) -> Callable[[str], None]:
    """Take a right from the role, on a connection of its own."""

    def call(right: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as owner:
            owner.execute(f"revoke {right} from {ROLE}".encode())

    return call


def consumer_of(dsn: str, kind: Kind, **settings: Any) -> Any:
    connect = {"options": f"-c role={ROLE}"}
    settings = {"concurrency": SLOTS, **settings}
    return kind("all", conninfo=dsn, connect=connect, **settings)


def lag(client: Client) -> int:
    return sum(part.lag for part in client.monitor.group_lag("events"))


def refused(dsn: str, kind: Kind, as_handler: As) -> str:
    """What it says at its start."""
    consumer = consumer_of(dsn, kind)
    consumer.handler("events")(as_handler(lambda payload: None))
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as error, working(consumer):
        pass
    return str(error.value)


def test_what_is_missing_is_named(
    dsn: str, client: Client, kind: Kind, as_handler: As, revoke: Any
) -> None:
    """All of it; the statements are enough, and give no more."""
    revoke("all on all functions in schema pgq")
    revoke("usage on schema pgq")
    client.publish("events", 1)
    grant, _, optional = refused(dsn, kind, as_handler).partition(" -- optional: ")
    assert grant.startswith(LACKS)
    assert optional == "pgq.next_poll, pgq.heartbeat"
    client.connection.execute(grant.removeprefix(LACKS).encode())
    given = client.connection.execute(
        "select proname from pg_proc where pronamespace = 'pgq'::regnamespace"
        " and not has_function_privilege('public', oid, 'execute')"
        " and has_function_privilege(%s, oid, 'execute')",
        [ROLE],
    )
    assert {name for (name,) in given} == {*EXECUTE} - OPTIONAL
    consumer = consumer_of(dsn, kind, poll=0.05)
    consumer.handler("events")(as_handler(lambda payload: None))
    with working(consumer):
        wait_until(lambda: lag(client) == 0)


@pytest.mark.parametrize("lacking", sorted({*EXECUTE} - OPTIONAL))
def test_each_is_needed(dsn: str, kind: Kind, as_handler: As, revoke: Any, lacking: str) -> None:
    revoke(f"execute on function pgq.{lacking}")
    said = refused(dsn, kind, as_handler)
    assert said == f"{LACKS}grant execute on function pgq.{lacking} to {ROLE};"


@pytest.mark.parametrize(
    ("right", "batch"),
    [
        ("usage on schema pgq", SIZE),
        ("execute on function pgq.commit_offset", None),
        ("execute on function pgq.nack_offsets", None),
        ("execute on function pgq.list_groups", SIZE),
    ],
)
def test_it_waits_for_the_grant(
    dsn: str,
    client: Client,
    clock: Clock,
    kind: Kind,
    as_handler: As,
    revoke: Any,
    caplog: pytest.LogCaptureFixture,
    right: str,
    batch: int | None,
) -> None:
    """Only what was in hand comes twice, and no attempts are used up meanwhile."""
    caplog.set_level("INFO", "pgq.consumer")
    client.admin.alter_group("events", "all", max_attempts=2, dead_letter_topic="dead")
    for number in range(MESSAGES):
        client.publish("events", number, partition=number % 4)
    seen: list[int] = []

    def handle(payload: Any) -> None:
        first = not seen
        seen.extend(payload if batch else [payload])
        if first:
            revoke(right)
            if "commit_offset" not in right:
                raise ValueError("once")

    def said() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]

    consumer = consumer_of(dsn, kind, poll=0.05, heartbeat=0.05)
    consumer.handler("events", batch=batch, max_messages=SIZE, backoff=0)(as_handler(handle))
    with working(consumer):
        wait_until(lambda: LACKS in caplog.text)
        for _ in range(3):
            clock.advance("10 minutes")
            asked = looks(client, "pgq consumer")
            wait_until(lambda asked=asked: asked() > SLOTS)
        assert not consumer.ready
        [line] = said()
        client.connection.execute(line.removeprefix(LACKS).encode())
        wait_until(lambda: lag(client) == 0)
        wait_until(lambda: consumer.ready)
    counts = Counter(seen)
    assert {*counts} == {*range(MESSAGES)}
    assert max(counts.values()) <= 2
    assert len(seen) <= MESSAGES + SLOTS * SIZE
    assert [one.messages for one in client.monitor.topic_stats("dead")] == [0]
    assert "has its rights again" in caplog.text
    assert len(said()) == 1


def test_a_grant_right_after_the_refusal(
    dsn: str,
    client: Client,
    kind: Kind,
    as_handler: As,
    revoke: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Before the look for what is missing: the commit is repeated."""
    right = "execute on function pgq.commit_offset"
    waits = (
        "select from pg_stat_activity where wait_event_type = 'Lock'"
        " and query like '%has_schema_privilege%' and datname = current_database()"
    )
    seen: list[int] = []

    def handle(payload: int) -> None:
        seen.append(payload)
        revoke(right)
        owner.execute("lock table pg_namespace")  # the look waits, what is cached does not

    def looking() -> list[Any]:
        owner.execute("select pg_stat_clear_snapshot()")
        return owner.execute(waits).fetchall()

    consumer = consumer_of(dsn, kind, concurrency=1)
    consumer.handler("events")(as_handler(handle))
    client.publish("events", 1)
    with psycopg.connect(dsn) as owner, working(consumer):
        wait_until(looking)
        owner.execute(f"grant {right} to {ROLE}".encode())
        owner.commit()
        wait_until(lambda: lag(client) == 0)
    assert seen == [1]
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


def test_a_stop_does_not_wait(
    dsn: str,
    client: Client,
    kind: Kind,
    as_handler: As,
    revoke: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    consumer = consumer_of(dsn, kind)
    consumer.handler("events")(as_handler(lambda payload: revoke("usage on schema pgq")))
    client.publish("events", 1)
    with working(consumer) as started:
        wait_until(lambda: LACKS in caplog.text)
        started.stop()
        started.ended.result(5)  # of the ten seconds that it gives a server


def test_what_ends_for_want_of_a_right_leaves_nothing(
    dsn: str, client: Client, kind: Kind, as_handler: As, revoke: Any
) -> None:
    consumer = consumer_of(dsn, kind)
    consumer.strict = True
    consumer.handler("events")(as_handler(lambda payload: revoke("usage on schema pgq")))
    client.publish("events", 1)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        Started(consumer).join()
    assert not consumer.running
    left = "select from pg_stat_activity where application_name like 'pgq consumer%'"
    wait_until(lambda: client.connection.execute(left).fetchall() == [])


def test_strict(
    dsn: str,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It ends with the grant in its last line."""
    client.publish("events", 1)
    (tmp_path / "consuming.py").write_text(
        f"import psycopg\nfrom pgq.consumer import Consumer\n\n"
        f'consumer = Consumer("all", conninfo={dsn!r})\n\n'
        f'@consumer.handler("events")\ndef handle(payload):\n'
        f"    with psycopg.connect({dsn!r}, autocommit=True, options='') as owner:\n"
        f'        owner.execute("revoke usage on schema pgq from {ROLE}")\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PGOPTIONS", f"-c role={ROLE}")
    assert main(["work", "consuming:consumer", "--strict"]) == 1
    assert capsys.readouterr().err.endswith(f"pgq: {LACKS}grant usage on schema pgq to {ROLE};\n")
