"""The locks for which calls wait, reported by the calls themselves, in their order.

Each statement that locks rows and would wait for them is preceded by a report for each table of
which it locks rows. What is skipped when it is locked is not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from explorer.gates import Link, before_statements, changing_functions

__all__ = ["install_reports", "numbers", "out_of_order"]

_REPORT = """
create table public.lock_report (
    place bigint generated always as identity, xid text, called_at timestamptz, relation text
);
create function public.report_lock(relation text) returns boolean language plpgsql
security definer as $$
begin
    insert into public.lock_report (xid, called_at, relation)
    values (pg_current_xact_id()::text, statement_timestamp(), relation);
    return true;
end
$$;
"""

_CLAUSE = re.compile(
    r"\bfor (?:no key update|update|key share|share)\b( of (\w+))?( skip| nowait)?"
)
_FROM = re.compile(r"\b(?:from|join) pgq\.(\w+) as (\w+)")
_ENDS = re.compile(r"(;|\bloop|\bthen)$")


def numbers(rules: str) -> dict[str, int]:
    """The number of each table in the order of locks, as the page of rules has it."""
    return {
        relation: int(number)
        for number, relations in re.findall(r"^\| (\d+) \| (.+?) \|", rules, re.MULTILINE)
        for relation in re.findall(r"`(\w+)`", relations)
    }


def _locked(statement: str) -> Iterator[str]:
    """The tables of which a statement locks rows and waits for them, from the inside out."""
    for clause in _CLAUSE.finditer(statement):
        if clause[3]:
            continue
        # of the select that the clause ends: what stands between brackets before it is another's
        before = statement[: clause.start()]
        while before != (inner := re.sub(r"\([^()]*\)", "", before)):
            before = inner
        tables = _FROM.findall(before.rpartition("(")[2])
        yield from (
            table
            for table, alias in (tables if clause[2] else tables[:1])
            if clause[2] in (None, alias)
        )


def _reports(rest: list[str]) -> list[str]:
    """What is put ahead of the statement with which these lines begin."""
    end = next(number for number, line in enumerate(rest) if _ENDS.search(line.rstrip()))
    statement = re.sub(r"--[^\n]*", "", "\n".join(rest[: end + 1]))
    return [f"assert public.report_lock('{table}');" for table in _locked(statement)]


def install_reports(link: Link) -> int:
    """Have all functions of pgq report, and say how many statements do."""
    link.rows(_REPORT)
    reports = 0
    for found in changing_functions(link):
        definition = before_statements(found, _reports)
        reports += definition.count("public.report_lock(")
        if definition != found:
            link.rows(definition)
    return reports


def out_of_order(link: Link, order: dict[str, int]) -> set[tuple[str, str]]:
    """Pairs of tables that a call has locked against their numbers, the first one first."""
    rows = link.rows(
        "select string_agg(relation, ' ' order by place) as locks"
        " from public.lock_report group by xid, called_at"
    )
    found = set()
    for row in rows:
        locks = [relation for relation in row["locks"].split() if relation in order]
        for place, later in enumerate(locks):
            for earlier in locks[:place]:
                if order[earlier] > order[later] and later not in locks[: locks.index(earlier)]:
                    found.add((earlier, later))
    return found
