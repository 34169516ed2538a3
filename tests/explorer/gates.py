"""Gates between the statements of functions: where a call can be made to wait for the others.

A call that runs through meets others only where it waits for a lock. With gates it can be stopped
behind each of its statements, as the system may do at any time to a call of a real session.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Link", "before_statements", "changing_functions", "install_gates"]

# Who passes a gate counts down. The runner has locked the number of the process by then.
_GATE = """
create function public.wait_at_gate() returns void language plpgsql set lock_timeout = 0 as $$
begin
    perform pg_advisory_lock_shared(pg_backend_pid());
    perform pg_advisory_unlock_shared(pg_backend_pid());
end
$$;
create function public.gate() returns boolean language plpgsql as $$
declare
    more integer := nullif(current_setting('explorer.pause', true), '')::integer;
begin
    if more > 0 then
        perform set_config('explorer.pause', (more - 1)::text, false);
        if more = 1 then
            perform public.wait_at_gate();
        end if;
    end if;
    return true;
end
$$;
"""

_BEFORE = re.compile(r"(;|\bbegin|\bthen|\belse|\bloop)$")
_NO_STATEMENT = re.compile(r"(end|elsif|else|exception|when|declare|get diagnostics)\b|--|<<")


def before_statements(definition: str, ahead: Callable[[list[str]], list[str]]) -> str:
    """The function with lines ahead of each statement; they are told the lines from there on.

    An assertion leaves ``found`` as it is.
    """
    lines = definition.split("\n")
    done = []
    before, within = "", False
    for number, line in enumerate(lines):
        text = line.strip()
        if within and _BEFORE.search(before) and text and not _NO_STATEMENT.match(text):
            done += ahead(lines[number:])
        done.append(line)
        if text and not text.startswith("--"):
            within = within or line == "begin"
            before = text
    return "\n".join(done)


def changing_functions(link: Link) -> list[str]:
    """The definitions of all functions of pgq that may change something."""
    rows = link.rows(
        "select pg_get_functiondef(p.oid) as definition from pg_proc as p"
        " inner join pg_language as l on l.oid = p.prolang"
        " where p.pronamespace = 'pgq'::regnamespace and l.lanname = 'plpgsql'"
        " and p.provolatile = 'v'"
    )
    return [row["definition"] for row in rows]


class Link(Protocol):
    def rows(self, statement: str) -> list[dict[str, Any]]: ...


def install_gates(link: Link) -> int:
    """Put gates into all functions of pgq that may change something, and say how many."""
    link.rows(_GATE)
    gates = 0
    for found in changing_functions(link):
        definition = before_statements(found, lambda rest: ["assert public.gate();"])
        gates += definition.count("assert public.gate();")
        link.rows(definition)
    return gates
