"""Acts that cannot be done are not offered: read-only, or to a role without the rights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect
from psycopg.conninfo import make_conninfo

from pgq import Client
from pgq.ui._acts import ACTS
from pgq.ui._rights import NEEDS
from support.house import ROOT
from support.page import Page, go

pytestmark = pytest.mark.slow

ROLE = "pgq_test_reader"
STATIC = ROOT / "python" / "src" / "pgq" / "ui" / "static"
OFFERED = (
    "[...document.querySelectorAll('[data-act]')].map((one) => [one.dataset.act, !one.disabled])"
)


@pytest.fixture
def places(client: Client) -> list[str]:
    """Every view, with something in it that can be done."""
    admin = client.admin
    admin.create_topic("t", partitions=1, deferred=True, restricted=True)
    admin.create_group("t", "g")
    for name in ("mail", "held"):
        admin.create_queue(name, max_attempts=1, restricted=True)
    admin.pause_queue("held")
    admin.subscribe("s", "t", "mail")
    for name in ("runs", "rests"):
        client.schedules.create_schedule(name, queue="mail", payload=1, every=timedelta(hours=1))
    client.schedules.pause_schedule("rests")
    client.heartbeat("w", kind="press", sources=["mail"])
    client.connection.execute("update pgq.worker set last_seen_at = '2000-01-01'")
    dead = client.enqueue("mail", 1, label="a").job_id
    [job] = client.claim_job("mail")
    client.nack(dead, job.lease_token)
    late = client.enqueue("mail", 2, label="a", delay=timedelta(hours=1)).job_id
    return [
        "", "topics", "topics/t", "topics/t/messages", "groups", "groups/t/g", "queues",
        "queues/mail", "queues/held", "queues/mail/jobs", "queues/mail/jobs?label=a",
        "queues/mail/dead", "queues/mail/dead?label=a", "queues/mail/errors",
        "queues/mail/finished", f"jobs/{dead}", f"jobs/{late}", "subscriptions", "schedules",
        "workers", "access", "health",
    ]  # fmt: skip


def walk(tab: Tab, page: Page, places: list[str]) -> tuple[set[str], set[str]]:
    """The acts that are offered, and those that are shown and are not; all is chosen first."""
    enabled, disabled = set(), set()
    expect(tab.locator(".where")).to_be_visible()  # by then it knows what may be done
    for place in places:
        go(tab, page, place)
        expect(tab.locator("main h1")).to_be_visible()
        expect(tab.get_by_text("…", exact=True)).to_have_count(0)
        chosen = tab.get_by_label("all shown")
        if chosen.count() and chosen.is_enabled():
            chosen.check()
            expect(tab.get_by_text("1 chosen")).to_be_visible()
        for name, offered in tab.evaluate(OFFERED):
            (enabled if offered else disabled).add(name)
    return enabled, disabled - enabled


@pytest.fixture
def reader(dsn: str, client: Client) -> Iterator[str]:
    """A role that sees everything of the restricted objects, and may do nothing with them."""
    connection = client.connection
    try:
        connection.execute(f"create role {ROLE} login password 'sesame'")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    connection.execute(f"grant usage on schema pgq to {ROLE}")
    connection.execute(f"grant execute on all functions in schema pgq to {ROLE}")
    connection.execute(f"grant select on pgq.topic_stats, pgq.group_lag, pgq.queue_stats to {ROLE}")
    try:
        yield make_conninfo(dsn, user=ROLE, password="sesame")
    finally:
        connection.execute(f"drop owned by {ROLE}")
        connection.execute(f"drop role {ROLE}")


def test_every_act_is_offered_somewhere(tab: Tab, page: Page, places: list[str]) -> None:
    """So the walk of the other tests meets them all."""
    assert walk(tab, page, places) == (set(ACTS), set())


def test_no_act_is_offered_read_only(open_tab: Any, dsn: str, places: list[str]) -> None:
    with Page(dsn, read_only=True) as shown:
        tab = open_tab(shown.url)
        assert walk(tab, shown, places) == (set(), set(ACTS))
        expect(tab.locator("[data-act]").first).to_have_attribute(
            "title", "read-only (--read-only)"
        )


def test_a_role_is_offered_what_it_may_do(
    open_tab: Any, client: Client, places: list[str], reader: str
) -> None:
    """Nothing, with monitor and consume access but for cleanup; then what a grant adds."""
    queues = [place for place in places if "queues" in place or "jobs/" in place]
    for queue in ("mail", "held"):
        client.admin.grant_access(ROLE, "consume", queue=queue)
    client.admin.grant_access(ROLE, "monitor", topic="t")
    client.connection.execute(f"revoke execute on function pgq.cleanup from {ROLE}")
    with Page(reader) as shown:
        tab = open_tab(shown.url)
        consume = {name for name, need in NEEDS.items() if need == (need[0], None, "consume")}
        # who may not publish to their queue does not see the schedules
        rest = set(ACTS) - consume - {"pause_schedule", "resume_schedule"}
        assert walk(tab, shown, places) == (consume, rest)
        client.admin.grant_access(ROLE, "admin", queue="mail")
        client.admin.grant_access(ROLE, "publish", queue="held")
        tab.reload()
        enabled, _ = walk(tab, shown, queues)
        assert enabled == {name for name, need in NEEDS.items() if need.queue} - {
            "resume_queue", "pause_schedule", "resume_schedule", "unsubscribe",
        }  # fmt: skip
        client.connection.execute(f"revoke execute on function pgq.redrive from {ROLE}")
        assert not [one for one in shown.read("about")["acts"] if one.startswith("redrive")]


def test_a_role_sees_what_it_may(client: Client, places: list[str], reader: str) -> None:
    """Without metrics, subscriptions, schedules and groups."""
    client.admin.grant_access(ROLE, "monitor", topic="t")
    client.admin.grant_access(ROLE, "monitor", queue="mail")
    client.connection.execute(
        "revoke execute on function pgq.metrics, pgq.list_subscriptions, pgq.list_schedules,"
        f" pgq.list_groups from {ROLE}"
    )
    with Page(reader) as shown:
        queue = shown.read("queue", queue="mail")
        assert (queue["stats"]["delayed"], queue["stats"]["dead"]) == (1, 1)
        assert (queue["estimated"], queue["subscriptions"], queue["schedules"]) == (None, [], [])
        topic = shown.read("topic", topic="t")
        assert (len(topic["partitions"]), topic["groups"]) == (1, [])
        [seen] = shown.read("overview")["queues"]
        assert (seen["queue"], seen["dead"]) == ("mail", 1)
        found = [one["what"] for one in shown.read("doctor")["findings"]]
        assert [one for one in found if "permission denied" in one]


def test_the_acts_are_those_of_the_server() -> None:
    """All go through the one button that asks whether they can be done."""
    assert set(NEEDS) == set(ACTS)
    asks = [line for file in STATIC.glob("*.mjs") for line in file.read_text().splitlines()
            if re.search(r"\bask\(", line)]  # fmt: skip
    assert len(asks) == 1
