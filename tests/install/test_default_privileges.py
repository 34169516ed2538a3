"""Default privileges of the owner open nothing that an install, an upgrade or cleanup makes."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from pgq.embedded import Server
from support.install import CHAINS, ROUTES

READER = "pgq_test_reader"
GIVE = f"""
alter default privileges grant select on tables to {READER} with grant option;
alter default privileges grant usage on sequences to {READER};
alter default privileges grant execute on functions to {READER}
"""
OPEN = """
select c.relname::text
from pg_class as c
cross join aclexplode(c.relacl) as x
where c.relnamespace = 'pgq'::regnamespace and x.grantee <> c.relowner
union all
select p.proname || coalesce(nullif(' to ' || x.grantee::regrole::text, ' to -'), '')
from pg_proc as p
cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as x
where p.pronamespace = 'pgq'::regnamespace and x.grantee <> p.proowner
order by 1
"""
OPEN_TO_ALL = ["_clock", "_partition_figures", "_visible_queues", "_visible_topics"]


@pytest.fixture
def reader(server: Server, empty_database: str) -> Iterator[str]:
    server.run("psql", "-X", "-c", f"create role {READER}")
    yield READER
    server.run("psql", "-X", "-c", f"drop database {empty_database} with (force)")
    server.run("psql", "-X", "-c", f"drop role {READER}")


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("route", ROUTES)
def test_nothing_is_open_to_others(
    server: Server, empty_database: str, reader: str, route: str, chain: str
) -> None:
    """Neither new tables, sequences, views and functions, nor a leaf that is made later."""
    *before, last = CHAINS[chain]
    for script in before:
        ROUTES[route](server, empty_database, script)
    with psycopg.connect(server.dsn_for(empty_database), autocommit=True) as connection:
        by_hand = []
        if before:
            connection.execute(f"grant select on pgq.message_0 to {reader}".encode())
            by_hand = ["message_0"]
        connection.execute(GIVE.encode())
        ROUTES[route](server, empty_database, last)
        connection.execute(
            f"alter default privileges in schema pgq grant all on tables to {reader}".encode()
        )
        connection.execute("select pgq._create_leaf(16)")
        assert [name for (name,) in connection.execute(OPEN.encode())] == OPEN_TO_ALL + by_hand
        # what a dump of the extension would take for its own
        recorded = connection.execute(
            "select count(*) from pg_init_privs as i cross join aclexplode(i.initprivs) as x"
            " where x.grantee = %s::regrole",
            [reader],
        ).fetchone()
        assert recorded == (0,)
