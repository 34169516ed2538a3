"""doctor: what goes on in the name of a role that has lost its access, or is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgq import Client
from support.command import Run

EVE = "pgq_test_eve"
TEAM = "pgq_test_team"


@pytest.fixture
def roles(client: Client) -> Iterator[None]:
    """A role that has access by its membership in another one."""
    execute = client.connection.execute
    execute(f"create role {TEAM}")
    execute(f"create role {EVE} in role {TEAM}")
    execute(f"grant usage on schema pgq to {TEAM}")
    execute(f"grant execute on all functions in schema pgq to {TEAM}")
    yield
    execute(f"drop owned by {TEAM}")
    execute(f"drop role if exists {EVE}")
    execute(f"drop role {TEAM}")


def found(pgq: Run, *arguments: str) -> list[str]:
    """What doctor says of dependents."""
    report = pgq("doctor", "--json", *arguments).json
    assert "dependents" in report["checked"]
    return [one["what"] for one in report["findings"] if one["check"] == "dependents"]


@pytest.mark.usefixtures("roles")
def test_makers_without_access(pgq: Run, client: Client) -> None:
    """Its membership is taken, which nothing can notice; then the role is dropped."""
    for topic in ("orders", "letters"):
        client.admin.create_topic(topic, partitions=1)
    client.admin.create_queue("mail")
    with client.connection.transaction():
        client.connection.execute(f"set local role {EVE}")
        client.admin.subscribe("copy", "orders", "mail")
        client.schedules.create_schedule("tick", queue="mail", payload=1, cron="@daily")
        client.admin.create_group("orders", "g", max_attempts=1, dead_letter_topic="letters")
    client.schedules.create_schedule("own", queue="mail", payload=1, cron="@daily")
    client.admin.grant_access(TEAM, "consume", topic="orders")
    client.admin.grant_access(TEAM, "publish", topic="letters")
    client.admin.grant_access(TEAM, "publish", queue="mail")
    assert found(pgq) == []

    client.connection.execute(f"revoke {TEAM} from {EVE}")
    which = (
        "the dead-letter topic of group g of topic orders", "schedule tick", "subscription copy",
    )  # fmt: skip
    lost = [
        f"{one} was set up by role {EVE}, which has not the access for it any more" for one in which
    ]
    assert found(pgq) == lost
    client.admin.alter_topic("orders", restricted=False)
    assert found(pgq) == lost
    client.admin.alter_queue("mail", restricted=False)
    assert found(pgq) == lost[:1]
    client.connection.execute(f"drop role {EVE}")
    gone = [f"{one} was set up by role {EVE}, which is not there any more" for one in which]
    assert found(pgq) == gone
    client.schedules.pause_schedule("tick")
    client.admin.unsubscribe("copy")
    client.admin.alter_group("orders", "g", dead_letter_topic="letters")
    assert found(pgq) == []
