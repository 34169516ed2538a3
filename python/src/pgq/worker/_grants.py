"""The functions that a worker calls: what its role needs EXECUTE on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["EXECUTE", "LACKING", "RESULTS", "refusal"]

RESULTS = ("archive_job", "archive_job_batch")
"""Called only where the queue keeps results."""

EXECUTE = (
    "list_queues", "claim_job", "finish_and_claim", "get_job", "ack", "ack_batch", "nack",
    "nack_batch", "release_job", "release_job_batch", "reject_job", "extend_lease",
    "extend_lease_batch", *RESULTS, "next_due", "set_progress", "heartbeat",
)  # fmt: skip
"""All that workers call, those written by hand included: the grant for a worker's role."""

_OPTIONAL = ("ack", "extend_lease", "get_job", "next_due", "set_progress", "heartbeat")
"""A worker does its jobs without these."""

LACKING: Final = """
    select p.proname::text, quote_ident(current_user)
    from pg_proc as p
    inner join pg_namespace as n on n.oid = p.pronamespace
    where n.nspname = 'pgq' and p.proname = any(%s)
        and not has_function_privilege(p.oid, 'execute')
    order by array_position(%s, p.proname::text)
"""


def refusal(lacking: Sequence[tuple[str, str]], results: bool) -> str | None:
    """Why the role cannot do jobs; None: it can. `results`: whether a queue keeps them."""
    names = [name for name, _ in lacking]
    if not {*names} - {*_OPTIONAL} - (set() if results else {*RESULTS}):
        return None
    functions = ", ".join(f"pgq.{name}" for name in names)
    [role] = {role for _, role in lacking}
    return (
        f"role {role} lacks rights that a worker needs, so no job was claimed; "
        f"HINT: grant execute on function {functions} to {role};"
    )
