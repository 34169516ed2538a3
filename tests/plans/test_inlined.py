"""Functions whose comments say that they are inlined: a call costs up to a third of a publish."""

from __future__ import annotations

import pytest

from support.session import Session

SAYS_SO = """
select p.proname
from pg_proc as p
where p.pronamespace = 'pgq'::regnamespace
    and obj_description(p.oid, 'pg_proc') ~ 'inlines\\s+it'
order by 1
"""


def test_they_are(connection: Session) -> None:
    names = [name for (name,) in connection.execute(SAYS_SO).fetchall()]
    assert len(names) >= 5
    for name in names:
        plan = _plan(connection, name)
        assert f"{name}(" not in plan, f"{name} is called:\n{plan}"


@pytest.mark.parametrize("name", ["_is_large", "_has_large"])
def test_one_that_promises_too_much_is_called(connection: Session, name: str) -> None:
    """That is what made the sizes of messages dear."""
    (definition,) = connection.execute(
        "select pg_get_functiondef(p.oid) from pg_proc as p where p.proname = %s", [name]
    ).fetchone() or ("",)
    changed = definition.replace("STABLE", "IMMUTABLE")
    assert changed != definition
    connection.execute(changed.encode())
    assert f"{name}(" in _plan(connection, name)


def _plan(connection: Session, name: str) -> str:
    [(returns_set, names, types)] = connection.execute(
        """
        select
            p.proretset,
            array(select 'a' || n from generate_series(1, p.pronargs) as n),
            array(select format_type(t, null) from unnest(p.proargtypes::oid[]) as t)
        from pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace and p.proname = %s
        """,
        [name],
    ).fetchall()
    call = f"pgq.{name}({', '.join(names)})"
    given = ", ".join(f"nullif(null::{kind}, null) as {one}" for one, kind in zip(names, types))
    # `offset 0` keeps the arguments from being folded
    source = f"(select {given} offset 0) as a"
    statement = (
        f"select r.* from {source}, {call} as r" if returns_set else f"select {call} from {source}"
    )
    plan = connection.execute(f"explain (verbose, costs off) {statement}".encode()).fetchall()
    return "\n".join(line for (line,) in plan)
