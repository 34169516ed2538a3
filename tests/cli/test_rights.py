"""What commands say to a role without rights: the statement that gives them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from pgq import Client
from support.command import Run
from support.session import Session

ROLE = "pgq_test_newcomer"


@pytest.fixture(autouse=True)
def role(connection: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All commands run as this role, which may do nothing."""
    try:
        connection.execute(f"create role {ROLE}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    monkeypatch.setenv("PGOPTIONS", f"-c role={ROLE}")
    yield
    connection.execute(f"drop owned by {ROLE}")
    connection.execute(f"drop role {ROLE}")


def hint(pgq: Run, *command: str) -> str:
    """What a command that is refused says after HINT."""
    done = pgq(*command)
    assert done.status == 1
    assert len(done.err.splitlines()) == 1
    said, _, grant = done.err.strip().partition("; HINT: ")
    assert said.startswith("pgq: permission denied for ")
    return grant


@pytest.mark.parametrize(
    ("command", "grants"),
    [
        (("publish", "orders", "1"), ["execute on function pgq.publish"]),
        (("enqueue", "mail", "1"), ["execute on function pgq.enqueue"]),
        (("queues", "list"), ["select on pgq.queue_stats"]),
        (("topics", "create", "new"), ["execute on function pgq.create_topic"]),
        (("cleanup",), ["execute on function pgq.cleanup"]),
        (("status",), []),
        (("top", "--count", "1"), []),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_the_grant_is_named(
    pgq: Run, client: Client, connection: Session, command: tuple[str, ...], grants: list[str]
) -> None:
    """Copied, it is what was missing: first of the schema, then of what is called.

    The commands that read much name all of it at once.
    """
    client.admin.create_topic("orders")
    client.admin.create_queue("mail")
    first = hint(pgq, *command)
    assert first.startswith(f"grant usage on schema pgq to {ROLE};")
    connection.execute(first.encode())
    for grant in grants:
        second = hint(pgq, *command)
        assert second == f"grant {grant} to {ROLE};"
        connection.execute(second.encode())
    assert pgq(*command).status == 0


def test_what_is_hidden_is_as_what_is_not_there(
    pgq: Run, client: Client, connection: Session
) -> None:
    """The same words for both, which are true of both."""
    connection.execute(f"grant usage on schema pgq to {ROLE}")
    connection.execute(f"grant execute on function pgq.enqueue, pgq.publish to {ROLE}")
    client.admin.create_queue("closed", restricted=True)
    client.admin.create_topic("closed", restricted=True)
    for call, kind in (("enqueue", "queue"), ("publish", "topic")):
        said = {pgq(call, name, "1").err.replace(name, "NAME") for name in ("closed", "nowhere")}
        assert said == {
            f'pgq: unknown {kind} "NAME"; HINT: pgq {kind}s create creates it; if it exists, '
            "this role needs pgq access grant.\n"
        }
        client.admin.grant_access(ROLE, "publish", **{kind: "closed"})
        assert pgq(call, "closed", "1").status == 0
