"""What workers are promised: who holds a job is not told that it is lost."""

from __future__ import annotations

from explorer.check_effects import EFFECTS
from explorer.history import Event, History

__all__ = ["LEAVING", "check_leases", "gave", "named", "takes"]

LEASED = (
    *("ack", "archive_job", "extend_lease", "nack", "reject_job", "release_job"),
    "set_progress",
)
"""They name a job under its token, alone or as a batch, and say whether it was held under it."""

TAKING = ("purge_queue", "drop_queue")
"""They name a queue, and take its jobs from their workers."""
LEAVING = (
    *("extend_lease", "get_job", "get_result", "job_history", "retry_job", "set_progress"),
    *EFFECTS,
)
"""They name a job, and leave it to its worker."""


def check_leases(history: History) -> None:
    """Every job that a call refused had been taken from its worker, as far as can be told."""
    events = [e for t in history.transactions for e in t.events if e.answer is not None]
    for event in events:
        refused = _refused(event)
        held = [job_id for job_id in refused if _holds(event, job_id, events, history)]
        # one of those is lost, who knows which
        if held and (event.call != "finish_and_claim" or held == refused):
            history.violate("refused", f"{event.statement} refused {held}: {event.answer}")


def named(event: Event) -> list[int]:
    if "job_id" in event.arguments:
        return [event.arguments["job_id"]]
    return event.arguments.get("job_ids") or []


def _refused(event: Event) -> list[int]:
    """The jobs that the call says are not held under the token."""
    assert event.answer is not None
    if event.call in ("finish_and_claim", "begin_effect"):
        return named(event) if event.answer.code == "MQ006" else []
    if event.call.removesuffix("_batch") not in LEASED or not event.succeeded:
        return []
    if event.call in LEASED:
        return [] if event.rows[0][event.call] else named(event)
    return [j for j in named(event) if j not in {row["job_id"] for row in event.rows}]


def _holds(event: Event, job_id: int, events: list[Event], history: History) -> bool:
    """Whether it was given the job for sure, and nobody may have taken it since."""
    token = event.arguments["lease_token"]
    claims = (e for e in events if gave(e, job_id) and e.rows[0]["lease_token"] == token)
    claim = next(claims, None)
    if claim is None or not _before(claim, event):
        return False
    if any(claim.started <= tick <= event.ended for tick, _ in history.moves):
        return False  # the lease may be over
    return not any(
        other.ended >= claim.started
        and other.started <= event.ended
        and (other.transaction.committed or other.transaction is event.transaction)
        and (takes(other) or job_id in named(other) or gave(other, job_id))
        and other.call not in LEAVING
        for other in events
        if other is not claim and other is not event
    )


def takes(event: Event) -> bool:
    """Whether it may take any job from its worker."""
    leased = event.call == "cancel_jobs" and event.arguments.get("leased", False)
    return leased or event.call in TAKING


def gave(event: Event, job_id: int) -> bool:
    """Whether it is a claim that was answered with the job."""
    return any("lease_token" in row and row.get("job_id") == job_id for row in event.rows)


def _before(claim: Event, event: Event) -> bool:
    """Whether what was claimed stood when the call began."""
    if claim.transaction is event.transaction:
        return claim.index < event.index
    return claim.transaction.committed and claim.transaction.ended < event.started
