"""The functions that a worker calls: what its role needs EXECUTE on."""

from __future__ import annotations

from collections.abc import Iterable

from pgq._runtime._rights import HOUSEKEEPING, Lacking

__all__ = ["EXECUTE", "KNOWN", "NEEDED", "RESULTS", "refusal"]

RESULTS = ("archive_job", "archive_job_batch")
"""Called only where the queue keeps results."""

EXECUTE = (
    "list_queues", "claim_job", "finish_and_claim", "get_job", "ack", "ack_batch", "nack",
    "nack_batch", "release_job", "release_job_batch", "reject_job", "extend_lease",
    "extend_lease_batch", *RESULTS, "next_due", "set_progress", "heartbeat",
)  # fmt: skip
"""All that workers call, those written by hand included: the grant for a worker's role."""

_OPTIONAL = ("get_job", "next_due", "set_progress", "heartbeat")
"""A worker does its jobs without these."""

_BY_HAND = ("ack", "extend_lease")
"""Called only by workers written by hand."""

NEEDED = tuple(name for name in EXECUTE if name not in {*_BY_HAND, *RESULTS})
"""What each worker calls, whatever its queues are."""

_REQUIRED = tuple(name for name in NEEDED if name not in _OPTIONAL)

KNOWN = (*EXECUTE, *HOUSEKEEPING, "create_queue")
"""All that a `refusal` may name."""


def refusal(lacking: Lacking, results: bool, beside: Iterable[str] = ()) -> str | None:
    """Why the role cannot do jobs; None: it can.

    results: whether a queue keeps them. beside: what this worker calls besides.
    """
    names = [*_REQUIRED, *(RESULTS if results else ()), *beside]
    return lacking.refusal("worker needs, so no job is claimed", names, _OPTIONAL)
