"""Plants faults in a database, so that a test can see that they are found.

A function of pgq is put aside in another schema, and a worse one takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.database import Link

__all__ = ["Fault", "plant"]


@dataclass(frozen=True)
class Fault:
    """A function, what it becomes, where to look, and the broken promises that give it away.

    In the body, ``{true}`` is the function that was put aside.
    """

    function: str
    body: str
    areas: tuple[str, ...]
    kinds: frozenset[str]


def plant(link: Link, fault: Fault) -> None:
    """Put the fault in the place of the function."""
    name = fault.function
    row = link.rows(
        "select pg_get_function_arguments(p.oid) as arguments,"
        " pg_get_function_result(p.oid) as result, pg_get_functiondef(p.oid) as definition"
        f" from pg_proc as p where p.oid = 'pgq.{name}'::regproc"
    )[0]
    # in another schema and under its own name, by which its body knows its arguments
    link.rows(row["definition"].replace(f"FUNCTION pgq.{name}(", f"FUNCTION explorer.{name}(", 1))
    body = fault.body.format(true=f"explorer.{name}")
    link.rows(
        f"create or replace function pgq.{name}({row['arguments']}) returns {row['result']}"
        f" language plpgsql as $$\n#variable_conflict use_column\n{body}\n$$"
    )
