"""What max_leased_per_key promises: no more of a key are leased, and none waits for nothing."""

from __future__ import annotations

from collections import Counter

from explorer.check_handed_out import holds, known_settings, must_know
from explorer.database import Link, Row
from explorer.history import Event, History
from explorer.known_jobs import Job, Queue
from explorer.script import written

__all__ = ["check_key_limits", "check_rooms"]

LATER = 3
"""Seconds after which a claim has looked at each key again."""
AT_THE_LATEST = 150
"""The same where the clock was set back."""

JOBS = """
select
    q.queue,
    q.max_leased_per_key as most,
    j.job_id,
    left(m.key, 255) as key,
    j.lease_token is not null and j.visible_at > pgq._clock() as leased,
    coalesce(j.due_at, j.visible_at) <= pgq._clock()
    and (j.expires_at is null or j.expires_at > pgq._clock())
    and j.attempt < coalesce(j.max_attempts, q.max_attempts, 2147483647) as due
from pgq.job as j
inner join pgq.queue as q using (queue_id)
left join pgq.message as m
    on m.segment = j.segment
    and m.partition_id = j.partition_id
    and m.log_offset = j.log_offset
where q.max_leased_per_key is not null
"""


# ---------------------------------------------------------------------------- what was answered


def check_key_limits(queue: Queue) -> None:
    """No claim gave a job of a key that was full for sure."""
    changes = queue.since_cut("create_queue", "alter_queue")
    if not any(event.rows[0]["max_leased_per_key"] for event in changes):
        return
    events = [e for t in queue.history.transactions for e in t.events if e.answer is not None]
    by_key: dict[str, list[Job]] = {}
    for job in queue.jobs.values():
        if job.key is not None:
            by_key.setdefault(job.key, []).append(job)
    for key, jobs in by_key.items():
        claims = {claimed.event.started: claimed.event for job in jobs for claimed in job.claims}
        for claim in claims.values():
            most = _most(claim, changes)
            if most is None:
                continue
            given = [job for job in jobs if any(c.event is claim for c in job.claims)]
            held = [
                job
                for job in jobs
                if job not in given
                and any(
                    must_know(c.event, claim, _most(c.event, changes) is not None)
                    and holds(queue.history, job, c.event, claim, events)
                    for c in job.claims
                )
            ]
            if len(given) + len(held) > most:
                ids = [job.job_id for job in given]
                told = f"{claim.statement} gave {ids} of {key}, of which were leased"
                told = f"{told} {[job.job_id for job in held]}, and {most} may be"
                queue.history.violate("too many of a key", told)


def _most(claim: Event, changes: list[Event]) -> int | None:
    """The highest limit that this claim may have known; None: perhaps there was none."""
    limits = [row["max_leased_per_key"] for row in known_settings(claim, changes)]
    return None if None in limits or not limits else max(limits)


# ---------------------------------------------------------------------------- what is left


def check_rooms(history: History, link: Link) -> None:
    """Claim all that can be had at the end of a trial, and take it back."""
    jobs = link.rows(JOBS)
    if not jobs:
        return
    _, ahead = history.clock(history.tick, history.tick)
    link.rows("begin")
    link.set_clock(ahead + (AT_THE_LATEST if history.went_back() else LATER))
    if history.went_back() or _moved_within_one(history):
        link.rows("select * from pgq.cleanup()")
    before = _leased(link.rows(JOBS))
    for name in sorted({row["queue"] for row in jobs}):
        idle = 0
        for _ in history.rounds(f"the claims of {name}"):
            claim = f"select * from pgq.claim_job({written(name)}, 1000, '1 hour')"
            idle = 0 if link.rows(claim) else idle + 1
            if idle == 2:  # the first one that gives nothing may have removed what held a place
                break
    after = link.rows(JOBS)
    link.rows("rollback")
    link.set_clock(ahead)
    leased = _leased(after)
    for place, count in leased.items():
        limit = max(row["most"] for row in after if row["queue"] == place[0])
        if place[1] is not None and count > max(limit, before[place]):
            history.violate("too many of a key", f"{count} leased of {place}, and {limit} may be")
    for row in after:
        room = row["key"] is None or leased[row["queue"], row["key"]] < row["most"]
        if row["due"] and not row["leased"] and room:
            history.violate("stuck at a key", f"{row} is not handed out")


def _moved_within_one(history: History) -> bool:
    """Whether the clock was moved while a transaction was open.

    How long it has been open is told by the clock of the system, which does not move with that of
    pgq here: low-water marks may be too high then, until cleanup.
    """
    return any(
        transaction.started < tick < transaction.ended
        for transaction in history.transactions
        for tick, _ in history.moves
    )


def _leased(rows: list[Row]) -> Counter[tuple[str, str | None]]:
    return Counter((row["queue"], row["key"]) for row in rows if row["leased"])
