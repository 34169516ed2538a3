"""Access per topic and queue where the role comes from a JSON Web Token."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from support.http import Answer, Http, signed
from support.postgrest import Postgrest
from support.session import Session

SECRET = "a secret of at least thirty-two characters"
ROLES = ("pgq_test_web_anonymous", "pgq_test_web_shop", "pgq_test_web_audit")


@pytest.fixture
def gateway(connection: Session, dsn: str) -> Iterator[Postgrest]:
    """PostgREST, whose requests without a token run as the first of the roles."""
    if Postgrest.binary() is None:
        pytest.skip("no PostgREST: run make postgrest")
    for role in ROLES:
        try:
            connection.execute(f"create role {role}")
        except psycopg.errors.InsufficientPrivilege:
            pytest.skip("the tests' user may not create roles")
        connection.execute(f"grant usage on schema pgq to {role}")
        connection.execute(f"grant execute on all functions in schema pgq to {role}")
        connection.execute(f"grant select on pgq.messages, pgq.topic_stats to {role}")
    try:
        with Postgrest(dsn, role=ROLES[0], secret=SECRET) as running:
            yield running
    finally:
        for role in ROLES:
            connection.execute(f"drop owned by {role}")
            connection.execute(f"drop role {role}")


def test_roles_of_tokens(connection: Session, gateway: Postgrest) -> None:
    anonymous = Http(gateway.url)
    shop = Http(gateway.url, signed({"role": ROLES[1]}, SECRET))
    audit = Http(gateway.url, signed({"role": ROLES[2]}, SECRET))
    connection.create_topic(topic="orders", partitions=1)
    connection.create_group(topic="orders", consumer_group="audit")
    connection.grant_access(role=ROLES[1], access="publish", topic="orders")
    connection.grant_access(role=ROLES[2], access="consume", topic="orders")

    message = {"topic": "orders", "payload": {"total": 7}}
    [stored] = shop.post("publish", **message).body
    assert stored["log_offset"] == 1
    for client, status, code in ((anonymous, 400, "MQ001"), (audit, 403, "42501")):
        answer = client.post("publish", **message)
        assert (answer.status, answer.body["code"]) == (status, code)

    read = {"topic": "orders", "consumer_group": "audit"}
    for client, code in ((anonymous, "MQ001"), (shop, "42501")):
        assert client.post("consume", **read).body["code"] == code
    [consumed] = audit.post("consume", **read).body
    assert consumed["payload"] == {"total": 7}

    path = "messages"
    assert [len(each.get(path).body) for each in (anonymous, shop, audit)] == [0, 0, 1]
    path = "topic_stats"
    assert [len(each.get(path).body) for each in (anonymous, shop, audit)] == [0, 1, 1]
    assert anonymous.get("rpc/list_topics") == Answer(200, [])
    assert [topic["topic"] for topic in shop.get("rpc/list_topics").body] == ["orders"]
