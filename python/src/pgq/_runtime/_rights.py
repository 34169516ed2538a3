"""Rights that a role lacks, and the statements that grant them; no input or output."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from psycopg import OperationalError

__all__ = ["HOUSEKEEPING", "LACKING", "Lacking", "MissingRights", "unseen"]

HOUSEKEEPING = ("cleanup", "run_schedules", "next_run")
"""All that housekeeping calls."""

LACKING: Final = """
    select quote_ident(current_user), has_schema_privilege(n.oid, 'usage'),
        array(
            select p.proname::text
            from pg_proc as p
            where p.pronamespace = n.oid and p.proname = any(%s)
                and not has_function_privilege(p.oid, 'execute')
        )
    from pg_namespace as n
    where n.nspname = 'pgq'
"""


def unseen(kind: str, name: str, role: str, otherwise: str = "") -> str:
    """What to say of a topic or queue that is not there for this role, and what to do."""
    return (
        f'{kind} "{name}" does not exist, or role {role} has no access to it; HINT: pgq {kind}s'
        f" create {name}{otherwise}; if it exists: pgq access grant {role} consume --{kind} {name}"
    )


class MissingRights(OperationalError):
    """The role has lost rights that all the work needs: waited for like a server that is away."""


class Lacking(NamedTuple):
    """An answer to LACKING."""

    role: str = ""
    usage: bool = True
    """Whether the role has USAGE on the schema."""
    functions: Collection[str] = ()

    def grant(self, names: Iterable[str]) -> str:
        """The statements after which the role may call these functions; empty: it may."""
        usage = "" if self.usage else f"grant usage on schema pgq to {self.role}; "
        lacking = ", ".join(
            f"pgq.{name}" for name in dict.fromkeys(names) if name in self.functions
        )
        if lacking:
            return f"{usage}grant execute on function {lacking} to {self.role};"
        return usage.rstrip()

    def refusal(self, what: str, names: Sequence[str], optional: Sequence[str]) -> str | None:
        """Why the role cannot do the work that calls these functions; None: it can.

        what: who needs them, and what is not done. A missing right to housekeeping stops no work.
        """
        if not self.grant(name for name in names if name not in HOUSEKEEPING):
            return None
        more = ", ".join(f"pgq.{name}" for name in optional if name in self.functions)
        return (
            f"role {self.role} lacks rights that a {what}; "
            f"HINT: {self.grant(names)}{f' -- optional: {more}' if more else ''}"
        )
