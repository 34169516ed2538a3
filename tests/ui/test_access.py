"""The page of a role: what it may see and do, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgq import Client
from support.page import Page

ROLE = "pgq_test_ui"


@pytest.fixture
def role(dsn: str, client: Client) -> Iterator[str]:
    """The connection string of a role that may call everything, as far as EXECUTE goes."""
    connection = client.connection
    try:
        connection.execute(f"create role {ROLE} login password 'sesame'")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    connection.execute(f"grant usage on schema pgq to {ROLE}")
    connection.execute(f"grant execute on all functions in schema pgq to {ROLE}")
    connection.execute(f"grant select on all tables in schema pgq to {ROLE}")
    connection.execute(f"revoke select on pgq.message, pgq.job, pgq.topic, pgq.queue from {ROLE}")
    try:
        yield make_conninfo(dsn, user=ROLE, password="sesame")
    finally:
        connection.execute(f"drop owned by {ROLE}")
        connection.execute(f"drop role {ROLE}")


def test_it_shows_what_the_role_may_see(client: Client, role: str) -> None:
    client.admin.create_topic("open", partitions=1)
    client.admin.create_topic("secret", partitions=1, restricted=True)
    client.admin.create_topic("figures", partitions=1, restricted=True)
    client.admin.create_queue("hidden", restricted=True, max_attempts=1)
    client.admin.grant_access(ROLE, "monitor", topic="figures")
    client.admin.create_group("secret", "g")
    for topic in ("open", "secret", "figures"):
        client.publish(topic, "content of " + topic)
    client.enqueue("hidden", "content of hidden")
    [job] = client.claim_job("hidden")
    client.nack(job.job_id, job.lease_token)
    with Page(role) as page:
        assert {one["topic"] for one in page.read("topics")} == {"open", "figures"}
        seen = page.read("overview")
        assert {one["topic"] for one in seen["topics"]} == {"open", "figures"}
        assert seen["queues"] == seen["groups"] == []
        assert page.read("topic", topic="figures")["partitions"][0]["messages"] == 1
        assert page.read("messages", topic="open")["messages"][0]["content"]["text"]
        assert page.ask("messages", topic="figures")[0] in (403, 404)
        unknown = page.ask("messages", topic="none")
        hidden = page.ask("messages", topic="secret")
        assert hidden[1]["message"] == unknown[1]["message"].replace("none", "secret")
        assert hidden[0] == unknown[0] == 404
        assert page.ask("job", job_id=job.job_id)[0] == 404
        assert page.ask("dead", queue="hidden")[0] == 404
        assert page.read("queues") == []
        assert page.read("history", kind="groups", topic="secret", name="g")["figures"] == {}


def test_it_does_what_the_role_may_do(client: Client, role: str) -> None:
    client.admin.create_queue("mail", restricted=True)
    client.admin.grant_access(ROLE, "publish", queue="mail")
    with Page(role) as page:
        assert page.act("enqueue", queue="mail", payload="1")
        status, document = page.do("pause_queue", queue="mail")
        assert (status, document["sqlstate"]) == (403, "42501")
        assert not client.monitor.queue_stats("mail")[0].paused
        client.admin.grant_access(ROLE, "admin", queue="mail")
        assert page.act("pause_queue", queue="mail")


def test_many_jobs_need_the_same_rights(client: Client, role: str) -> None:
    """Of a queue that it may only work on, a role cannot redrive or remove dead letters."""
    client.admin.create_queue("mail", restricted=True, max_attempts=1)
    client.admin.create_queue("hidden", restricted=True)
    client.admin.grant_access(ROLE, "consume", queue="mail")
    client.enqueue("mail", 1, label="a")
    [job] = client.claim_job("mail")
    client.nack(job.job_id, job.lease_token)
    unseen = client.enqueue("hidden", 1, label="a").job_id
    with Page(role) as page:
        for name in ("redrive", "purge"):
            for status, document in (
                page.ask("matching", act=name, queue="mail", label="a"),
                page.do(f"{name}_page", queue="mail", label="a"),
                page.do(f"{name}_chosen", queue="mail", job_ids=[job.job_id]),
            ):
                assert (status, document["sqlstate"]) == (403, "42501"), document
        for name in ("cancel", "retry"):
            assert page.ask("matching", act=name, queue="mail", label="a")[0] == 200
            assert page.do(f"{name}_page", queue="hidden", label="a")[0] == 404
        assert page.act("cancel_chosen", queue="hidden", job_ids=[unseen]).startswith("cancelled 0")
        assert page.ask("finished", queue="hidden")[0] == 404
        assert page.read("job", job_id=job.job_id)["attempts"]
        client.connection.execute(f"revoke execute on function pgq.job_history from {ROLE}")
        assert page.read("job", job_id=job.job_id)["attempts"] is None
    assert client.monitor.queue_stats("mail")[0].dead == 1
    assert client.get_job(unseen) is not None


def test_a_role_that_may_call_little(client: Client, role: str) -> None:
    """What can be shown is shown; for the rest it says what the role lacks."""
    client.admin.create_topic("t", partitions=1)
    client.connection.execute(f"revoke execute on all functions in schema pgq from {ROLE}")
    for name in ("version()", "list_topics()"):
        client.connection.execute(f"grant execute on function pgq.{name} to {ROLE}")
    with Page(role) as page:
        assert page.read("topics")[0]["topic"] == "t"
        status, document = page.ask("messages", topic="t")
        assert (status, document["sqlstate"]) == (403, "42501")
        assert "list_offsets" in document["message"]
        assert page.read("overview")["topics"][0]["topic"] == "t"
        assert page.ask("workers")[0] == 403


def test_a_database_without_pgq(dsn: str, client: Client) -> None:
    client.connection.execute("drop schema pgq cascade")
    with Page(dsn) as page:
        for name in ("topics", "about"):
            status, document = page.ask(name)
            assert status == 503
            assert "'pgq migrate' installs it" in document["message"], (name, document)
        status, document = page.ask("overview")
        assert (status, "schema pgq" in document["message"]) == (503, True)
