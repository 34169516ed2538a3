"""Which tables each function locks, and how: measured while it runs.

Two functions share a table when one of them does more there than read. A leaf counts as its table,
advisory locks count as a table too.
"""

from __future__ import annotations

import random
from collections.abc import Collection

from explorer.calls import CALLS
from explorer.draw import Near
from explorer.every_pair import NO_PAIR, calls_in, function_of
from explorer.run import Runner
from explorer.script import Step, Trial
from explorer.setups import setup_of
from explorer.statements import sql_of
from explorer.stock import stock_of
from explorer.themes import THEMES, theme_of

__all__ = ["Footprints", "measure", "pairs_of", "without_any"]

Footprints = dict[str, dict[str, bool]]
"""For each function the tables that it locks; true: not only to read them."""

LOCKS = """
select coalesce(t.relname, c.relname, l.locktype) as locked,
    bool_or(l.mode <> 'AccessShareLock') as writes
from pg_locks as l
left join pg_class as c on c.oid = l.relation
left join pg_inherits as i on i.inhrelid = l.relation
left join pg_class as t on t.oid = i.inhparent
where l.pid = {pid} and (
    l.locktype = 'advisory'
    or (c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p'))
)
group by 1
"""


def measure(runner: Runner, seed: int, areas: tuple[str, ...] = ()) -> Footprints:
    """Call everything once in each theme, or in these areas, and look at the locks."""
    found: Footprints = {}
    themes = [areas] if areas else [tuple(sorted(theme)) for _, theme in THEMES]
    for theme in themes:
        _measure_in(runner, random.Random(f"{seed} {theme}"), theme, found)
    return found


def _measure_in(
    runner: Runner, rng: random.Random, areas: tuple[str, ...], found: Footprints
) -> None:
    draw = Near(rng)
    theme = theme_of(draw, areas)
    setup = setup_of(draw, theme)
    calls = calls_in(theme)
    steps = [Step(1, call.name, _drawn(draw, call.name)) for call in calls]
    stock = stock_of(draw, theme, [(0, step) for step in steps])
    runner.run(Trial("footprints", ("read committed",), tuple(setup), (), tuple(stock)))
    link = runner.actors[1].link
    for step in steps:
        arguments = runner.resolved(step)
        if arguments is None:
            continue
        answer = link.ask(f"begin; {sql_of(step.call, arguments)}")
        if answer.code is None:
            seen = found.setdefault(function_of(step.call), {})
            for row in runner.database.house.rows(LOCKS.format(pid=link.pid)):
                seen[row["locked"]] = row["writes"] or seen.get(row["locked"], False)
        link.ask("rollback")


def _drawn(draw: Near, name: str) -> dict[str, object]:
    draw.place = 0
    return CALLS[name].draw(draw)


def pairs_of(footprints: Footprints, only: Collection[str] = ()) -> list[tuple[str, str]]:
    """All pairs of functions that share a table, each both ways; or those with one of some."""
    return [
        (first, second)
        for first in sorted(footprints)
        for second in sorted(footprints)
        if _share(footprints[first], footprints[second])
        and (not only or first in only or second in only)
    ]


def _share(first: dict[str, bool], second: dict[str, bool]) -> bool:
    return any(first[table] or second[table] for table in first.keys() & second.keys())


def without_any(footprints: Footprints) -> list[str]:
    """Functions that never succeeded, or lock nothing."""
    functions = {function_of(name) for name in CALLS.keys() - NO_PAIR}
    return sorted(function for function in functions if not footprints.get(function))
