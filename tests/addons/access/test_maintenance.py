"""Functions in the indexes of a table run when others maintain it: with its owner's access alone.

PostgreSQL runs them with the rights of the table's owner, but in the session of whoever analyzes,
reindexes or refreshes; and it analyzes tables itself, as a superuser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import ClientCursor

from addons.access.conftest import STRANGER, acting, role_of
from addons.access.test_every_function import HIDDEN, NEEDS
from pgq.embedded import Server
from support.calls import Arguments, given
from support.house import install_script
from support.session import Session, unchanged
from support.waiting import wait_until

LAIR = """
create schema lair;
grant usage, create on schema lair to {owner};
create table lair.todo (statement text);
create table lair.loot (statement text, outcome text);
create table lair.bait (n integer);
create function lair.reach() returns void language plpgsql as $$
declare
    todo text;
    outcome text;
begin
    for todo in select t.statement from lair.todo as t loop
        begin
            execute 'select string_agg(x::text, '';'') from (' || todo || ') as x' into outcome;
        exception
            when others then
                outcome := sqlstate;
        end;
        insert into lair.loot values (todo, outcome);
    end loop;
end
$$;
-- a lie, as indexes need it
create function lair.twice(n integer) returns integer language plpgsql immutable as $$
begin
    perform lair.reach();
    return 2 * n;
end
$$;
insert into lair.bait values (1);
create index on lair.bait (lair.twice(n));
create materialized view lair.catch as select lair.reach() is null as done with no data;
alter table lair.todo owner to {owner};
alter table lair.loot owner to {owner};
alter table lair.bait owner to {owner};
alter materialized view lair.catch owner to {owner};
alter function lair.reach() owner to {owner};
alter function lair.twice(integer) owner to {owner};
"""

CHORES = (
    "analyze lair.bait",
    "reindex table lair.bait",
    "create index on lair.bait (lair.twice(n + 1))",
    "refresh materialized view lair.catch",
)

SHOWN = (
    "select * from pgq.messages",
    "select * from pgq.queue_stats",
    "select * from pgq.topic_stats",
    "select * from pgq.list_topics()",
    "select * from pgq.list_queues()",
    "select * from pgq.list_schedules()",
    "select * from pgq.list_access()",
)


@pytest.fixture
def lair(roles: Session, known: Arguments) -> Iterator[Session]:
    """Tables of the stranger's, with functions that try what stands in todo."""
    with roles.transaction(force_rollback=True):
        roles.execute(LAIR.format(owner=STRANGER).encode())
        yield roles


def caught(session: Session, chore: str, statements: list[str]) -> dict[str, str | None]:
    """What the stranger's functions get when somebody else does this to his tables."""
    session.execute("truncate lair.todo, lair.loot")
    with session.cursor() as cursor:
        cursor.executemany(
            "insert into lair.todo values (%s)", [(statement,) for statement in statements]
        )
    session.execute(chore.encode())
    found = session.execute("select statement, outcome from lair.loot").fetchall()
    return dict(found)


def written(session: Session, function: str, arguments: Arguments) -> str:
    """The call as a text."""
    listed = ", ".join(f"{name} => %({name})s" for name in arguments)
    return ClientCursor(session).mogrify(f"select * from pgq.{function}({listed})", arguments)


@pytest.mark.parametrize("chore", CHORES)
def test_no_function_works_for_the_owner_of_a_table(
    chore: str, lair: Session, known: Arguments
) -> None:
    """Each fails as it does for him, whoever maintains his table."""
    calls = {function: written(lair, function, given(function, known)) for function in NEEDS}
    with unchanged(lair):
        got = caught(lair, chore, list(calls.values()))
    for function, call in calls.items():
        expected: Any = HIDDEN.get(function)
        if function not in HIDDEN:
            assert got[call] in ("MQ001", "MQ002", "MQ011", "42501"), function
        elif isinstance(expected, str):
            assert got[call] == expected, function
        else:
            assert got[call] in (None, "(f)", "(gone,,,)"), function


@pytest.mark.parametrize("chore", CHORES)
def test_nothing_is_shown_to_the_owner_of_a_table(chore: str, lair: Session) -> None:
    """Lists and views leave out what is restricted, and go on to work for what is open."""
    lair.create_topic(topic="open", partitions=1)
    got = caught(lair, chore, list(SHOWN))
    for statement, outcome in got.items():
        assert outcome is None or "open" in outcome, statement
        assert "followers" not in (outcome or ""), statement
        assert len((outcome or "").split(";")) == 1, statement
    assert got["select * from pgq.list_topics()"] is not None


@pytest.mark.parametrize("chore", CHORES)
def test_nothing_is_made_by_the_owner_of_a_table(chore: str, lair: Session) -> None:
    """Not in the name of whoever maintains it either, where everything is open."""
    lair.create_topic(topic="open", partitions=1)
    lair.create_queue(queue="open")
    attempts = [
        "select pgq.heartbeat('lair')",
        "select pgq.subscribe('lair', topic => 'open', queue => 'open')",
        "select pgq.create_queue('lair', restricted => true)",
    ]
    assert caught(lair, chore, attempts) == dict.fromkeys(attempts, "42501")


def test_the_table_of_who_has_access(lair: Session) -> None:
    """In a view it is the reader who counts, so his figures may be refreshed by others."""
    reader = role_of("monitor")
    lair.execute(f"grant usage on schema lair to {reader}")
    lair.execute("create materialized view lair.lag as select * from pgq.group_lag with no data")
    lair.execute(f"alter materialized view lair.lag owner to {reader}")
    lair.execute("refresh materialized view lair.lag")
    assert len(lair.execute("select from lair.lag").fetchall()) == 2
    lair.revoke_access(role=reader, topic="t")
    lair.execute("refresh materialized view lair.lag")
    assert lair.execute("select from lair.lag").fetchall() == []


def test_access_is_not_changed_there(lair: Session) -> None:
    """Who restricts becomes its admin: nobody, here."""
    lair.create_topic(topic="open")
    call = "select * from pgq.alter_topic('open', restricted => true)"
    grant = "select * from pgq.grant_access('public', 'admin', topic => 'open')"
    assert caught(lair, "analyze lair.bait", [call, grant]) == {call: "42501", grant: "42501"}
    with acting(lair, STRANGER):
        assert [topic.restricted for topic in lair.list_topics()] == [False]


@pytest.mark.slow
def test_autovacuum(start_server: Callable[..., Server]) -> None:
    """PostgreSQL analyzes by itself, as a superuser, without anybody's doing."""
    server = start_server(
        settings={
            "fsync": "off",
            "autovacuum_naptime": "1s",
            "autovacuum_analyze_threshold": "1",
            "autovacuum_analyze_scale_factor": "0",
        }
    )
    with Session.connect(server.dsn, autocommit=True) as session:
        session.execute(install_script())
        session.execute(f"create role {STRANGER}")
        session.execute(f"grant usage on schema pgq to {STRANGER}")
        session.execute(f"grant execute on all functions in schema pgq to {STRANGER}")
        session.create_topic(topic="t", partitions=1, restricted=True)
        session.publish(topic="t", payload=1)
        session.execute(LAIR.format(owner=STRANGER).encode())
        fetch = "select * from pgq.fetch_range('t', 0, 1, 1)"
        by_nobody = "select current_query() is null and current_setting('role') = 'none'"
        session.execute("insert into lair.todo values (%s), (%s)", [by_nobody, fetch])
        session.execute(f"set role {STRANGER}")
        session.execute("insert into lair.bait select generate_series(1, 100)")
        session.execute("truncate lair.loot")
        session.execute("reset role")

        def reached() -> list[Any]:
            found = session.execute("select distinct statement, outcome from lair.loot").fetchall()
            return found if (by_nobody, "(t)") in found else []

        wait_until(lambda: bool(reached()), 90, "for autovacuum to analyze the table")
        assert dict(reached()) == {fetch: "MQ001", by_nobody: "(t)"}


def test_who_may_still_may(lair: Session) -> None:
    """The same functions work for who has access, and calls them."""
    statement = "select payload from pgq.fetch_range('t', 0, 1, 1)"
    lair.execute("insert into lair.todo values (%s)", [statement])
    for role, outcome in ((STRANGER, "MQ001"), (role_of("consume"), "(0)")):
        lair.execute("truncate lair.loot")
        with lair.transaction():
            lair.execute("grant usage on schema lair to public")
            lair.execute("grant all on all tables in schema lair to public")
            lair.execute(f"set local role {role}")
            lair.execute("select lair.reach()")
            lair.execute("reset role")
        assert lair.execute("select outcome from lair.loot").fetchall() == [(outcome,)]


def test_parallel_plans(lair: Session) -> None:
    """A view may be read by a parallel plan: it does not ask who the session is."""
    reader = role_of("consume")
    major = lair.info.server_version // 10000
    lair.execute("set local parallel_setup_cost = 0")
    lair.execute("set local parallel_tuple_cost = 0")
    lair.execute("set local min_parallel_table_scan_size = 0")
    lair.execute("set local min_parallel_index_scan_size = 0")
    with lair.transaction():
        lair.execute(f"set local role {reader}")
        forced = "debug_parallel_query" if major >= 16 else "force_parallel_mode"
        lair.execute(f"set local {forced} = on")
        assert lair.execute("select count(*) from pgq.messages").fetchall() == [(150,)]
        assert len(lair.fetch_range(topic="t", partition=0, first_offset=1, last_offset=2)) == 2
        assert lair.list_topics() != []
