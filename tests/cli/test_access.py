"""access: grants given, shown and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import pytest

from pgq import Access, Client
from support.command import Run

ROLE = "pgq_test_clerk"


@pytest.fixture
def role(client: Client) -> Iterator[str]:
    client.connection.execute(f"create role {ROLE}")
    yield ROLE
    client.connection.execute(f"drop role {ROLE}")


def test_access(pgq: Run, client: Client, role: str) -> None:
    client.admin.create_topic("orders")
    client.admin.create_queue("mail")
    assert pgq("access", "list").out == "no grants\n"
    given = pgq("access", "grant", role, "publish", "--topic", "orders", "--json")
    assert given.status == 0, given.err
    assert set(given.json) == {field.name for field in fields(Access)}
    assert pgq("access", "grant", role, "monitor", "--queue", "*").status == 0
    assert [(one.role, one.topic, one.queue, one.access) for one in client.admin.list_access()] == [
        (role, "orders", None, "publish"),
        (role, None, "*", "monitor"),
    ]
    assert [row["access"] for row in pgq("access", "list", "--json").json] == ["publish", "monitor"]
    assert len(pgq("access", "list", "--topic", "orders", "--json").json) == 1
    revoked = pgq("access", "revoke", role, "--topic", "orders")
    assert revoked.out == f'revoked the access of "{role}"\n'
    again = pgq("access", "revoke", role, "publish", "--topic", "orders")
    assert again.out == "there was nothing to revoke\n"
    assert pgq("access", "revoke", role, "--queue", "*").status == 0
    assert client.admin.list_access() == []


def test_refusals(pgq: Run, role: str) -> None:
    unknown = pgq("access", "grant", role, "publish", "--topic", "nowhere")
    assert unknown.status == 1
    assert unknown.err.startswith('pgq: unknown topic "nowhere"')
    nobody = pgq("access", "grant", "nobody_at_all", "publish", "--topic", "*")
    assert nobody.status == 1
    assert 'role "nobody_at_all" does not exist' in nobody.err
    assert pgq("access", "grant", role, "write", "--topic", "*").status == 2
