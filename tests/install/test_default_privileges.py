"""Default privileges of the owner open nothing that an install, an upgrade or cleanup makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from pgq.embedded import Server
from support.install import ROUTES
from support.next_version import AFTER, BEFORE

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
# those of the version that the tests make
OPENED_BY_SAMPLES = ["_figure", "comes_for_all"]


@pytest.mark.parametrize("upgraded", [False, True], ids=["fresh", "upgraded"])
@pytest.mark.parametrize("route", ROUTES)
def test_nothing_is_open_to_others(
    running: Server, create: Callable[[], str], tree: Path, script: Path, route: str, upgraded: bool
) -> None:
    """Neither new tables, sequences, views and functions, nor a leaf that is made later."""
    database = create()
    old, new = (tree / "migrations" / f"pgq--{version}.sql" for version in (BEFORE, AFTER))
    with psycopg.connect(running.dsn_for(database), autocommit=True) as connection:
        connection.execute(f"create role {READER}".encode())
        by_hand = []
        if upgraded:
            ROUTES[route](running, database, old)
            connection.execute(f"grant select on pgq.message_0 to {READER}".encode())
            by_hand = ["message_0"]
        connection.execute(GIVE.encode())
        ROUTES[route](running, database, script if upgraded else new)
        connection.execute(
            f"alter default privileges in schema pgq grant all on tables to {READER}".encode()
        )
        connection.execute("select pgq._create_leaf(16)")
        found = {name for (name,) in connection.execute(OPEN.encode())}
        assert found == {*OPEN_TO_ALL, *OPENED_BY_SAMPLES, *by_hand}
        # what a dump of the extension would take for its own
        recorded = connection.execute(
            "select count(*) from pg_init_privs as i cross join aclexplode(i.initprivs) as x"
            " where x.grantee = %s::regrole",
            [READER],
        ).fetchone()
        assert recorded == (0,)
        connection.execute(f"drop owned by {READER}".encode())
        connection.execute(f"drop role {READER}".encode())
