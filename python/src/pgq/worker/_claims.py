"""What a worker holds: the jobs of one claim, and what has become of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from uuid import UUID

from pgq.messages import Job
from pgq.worker._handlers import Handler

__all__ = ["STOPPED", "Claim", "Claims"]

STOPPED = "the worker was stopped"


class Claim:
    """The jobs of one claim. All have one lease token, and their leases end together."""

    __slots__ = (
        "began_at",
        "done",
        "done_since",
        "handler",
        "held_until",
        "jobs",
        "lost",
        "open",
        "progress",
        "renew_at",
        "running",
        "slot",
        "token",
    )

    def __init__(
        self, handler: Handler, jobs: Sequence[Job], claimed_at: float, slot: object = None
    ) -> None:
        self.handler = handler
        self.jobs = jobs
        self.token: UUID = jobs[0].lease_token
        self.slot = slot
        self.open = {job.job_id for job in jobs}
        """Those whose handler has not ended."""
        self.done: list[int] = []
        """Those that are to be finished."""
        self.done_since = 0.0
        self.lost: set[int] = set()
        """Those that somebody else may have by now: nothing is written for them."""
        self.running: frozenset[int] = frozenset()
        """Those that the handler has at this moment."""
        self.began_at: datetime | None = None
        """When the handler got those that it has, or had last."""
        self.progress: dict[int, str] = {}
        """What handlers have said since the last heartbeat, as JSON by job id."""
        self.renewed(claimed_at)

    def renewed(self, at: float) -> None:
        """The lease was extended by a call that began then."""
        lease = self.handler.lease_seconds
        self.held_until = at + lease
        self.renew_at = at + lease / 3

    def begin(self, jobs: Iterable[Job]) -> None:
        """The handler gets these jobs now."""
        self.began_at = datetime.now(timezone.utc)
        self.running = frozenset(job.job_id for job in jobs)

    def finish(self, job_id: int) -> None:
        """A job is done; it counts once the database was told."""
        self.open.discard(job_id)
        if job_id not in self.lost:
            if not self.done:
                self.done_since = time.monotonic()
            self.done.append(job_id)

    def close(self, job_id: int) -> None:
        """The database was told of a job, or will not be."""
        self.open.discard(job_id)

    def take_done(self) -> list[int]:
        """What is to be finished now."""
        done, self.done = self.done, []
        return done

    def to_give_back(self) -> tuple[list[int], list[int]]:
        """What is left when the worker stops: jobs that fail by that, and jobs that are released.

        A job with a single attempt that was begun must not be begun again.
        """
        left = self.open - self.lost
        single = {job.job_id for job in self.jobs if job.max_attempts == 1}
        tried = left & self.running & single
        return sorted(tried), sorted(left - tried)

    def take_progress(self, job_id: int) -> str | None:
        """What the handler has said last, if it still has the job and its lease is not lost."""
        text = self.progress.pop(job_id, None)
        return text if job_id in self.running - self.lost else None

    def lose(self, job_ids: set[int]) -> bool:
        """Note jobs as lost; True: the handler has nothing left to do and is to be stopped."""
        self.lost |= job_ids & self.open
        return bool(self.running) and self.running <= self.lost


class Claims:
    """All claims of a worker."""

    def __init__(self) -> None:
        self._claims: dict[int, Claim] = {}
        self._lock = threading.Lock()

    def add(self, claim: Claim) -> None:
        """Keep its lease from now on."""
        with self._lock:
            self._claims[id(claim)] = claim

    def remove(self, claim: Claim) -> None:
        """Let its lease go."""
        with self._lock:
            self._claims.pop(id(claim), None)

    def all(self) -> list[Claim]:
        """Those that are held."""
        with self._lock:
            return [*self._claims.values()]

    def due(self, now: float) -> list[Claim]:
        """Those whose leases are to be extended."""
        return [
            claim
            for claim in self.all()
            if claim.renew_at <= now and (claim.open - claim.lost or claim.done)
        ]

    def expired(self, now: float) -> list[Claim]:
        """Those whose leases have run out, as far as anybody knows here."""
        return [
            claim for claim in self.all() if claim.held_until <= now and claim.open - claim.lost
        ]
