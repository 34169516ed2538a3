"""pgq cleanup, where a part of it fails, and other commands that the server warns."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from pgq import Client
from support.command import Run
from support.session import Session


@pytest.fixture
def broken(connection: Session, client: Client) -> Iterator[str]:
    """A topic that can give no offsets, since a subscription cannot be evaluated."""
    client.admin.create_topic("broken", deferred=True)
    client.admin.create_queue("mail")
    client.admin.subscribe("to-mail", "broken", "mail", routing_key="a")
    connection.execute("update pgq.subscription set routing_regex = '('")
    client.publish("broken", 1, headers={"routing_key": "a"})
    yield "broken"
    connection.execute("update pgq.subscription set routing_regex = null")
    client.admin.cleanup()


def _told_by_doctor(pgq: Run) -> list[dict[str, Any]]:
    findings = pgq("doctor", "--json").json["findings"]
    return [one for one in findings if one["what"].startswith("cleanup fails")]


def test_a_part_that_fails(pgq: Run, broken: str) -> None:
    """Status 1 for cron, the part on the standard output, the reason on the other."""
    done = pgq("cleanup", "--json")
    assert done.status == 1
    failed = ("failed", "offsets of broken: 2201B")
    assert failed in [(one["action"], one["target"]) for one in done.json]
    [warning] = done.err.splitlines()
    assert warning.startswith('pgq: cleanup could not do its part "offsets of broken"; invalid')
    assert "_assign_staged" in warning
    [found] = _told_by_doctor(pgq)
    assert found["what"] == "cleanup fails for offsets of broken: 2201B"
    assert found["severity"] == "error"
    assert "invalid regular expression" in found["why"]
    assert found["since"]
    assert pgq("subscriptions", "drop", "to-mail", "--yes").status == 0
    assert pgq("cleanup").status == 0
    assert _told_by_doctor(pgq) == []
    assert pgq("cleanup").err == ""


def test_a_part_that_fails_in_each_call(pgq: Run, client: Client, broken: str) -> None:
    """One command calls cleanup until there is no more to do, and says it once."""
    client.admin.create_queue("brief", job_ttl=timedelta(milliseconds=1))
    client.enqueue_batch("brief", [1] * 11000)
    done = pgq("cleanup", "--json")
    actions = [one["action"] for one in done.json]
    assert actions.count("jobs expired") > 1
    assert actions.count("failed") == 1
    assert len(done.err.splitlines()) == 1


def test_a_topic_that_goes_all_the_same(pgq: Run, broken: str) -> None:
    done = pgq("topics", "drop", broken, "--yes")
    assert (done.status, done.out) == (0, f'dropped topic "{broken}"\n')
    assert done.err.startswith("pgq: messages of the deferred topic get no offsets; invalid")
