"""Calling a handler for the jobs of a claim, and telling the database what came of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import psycopg
from psycopg.errors import InsufficientPrivilege, ReadOnlySqlTransaction
from psycopg.types.json import Jsonb

from pgq._async import AsyncClient
from pgq._runtime._async._slots import with_details
from pgq._runtime._errors import HandlerTimeout, failure
from pgq._runtime._tasks import Cancelled, Running
from pgq._runtime._times import LONGEST_TURN
from pgq.errors import LeaseLost
from pgq.messages import Job
from pgq.worker._async._supervisor import Supervisor
from pgq.worker._claims import STOPPED, Claim
from pgq.worker._handlers import unknown_task
from pgq.worker._outcomes import UnknownTask, conclusion
from pgq.worker._reports import logger

__all__ = ["Execution"]

_NONE: frozenset[int] = frozenset()


class Execution:
    """The part of a slot that has jobs in hand."""

    running: Running | None

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._wakeup = supervisor.new_wakeup()

    async def work(self, claim: Claim) -> Claim | None:
        """Do the jobs of a claim; returns it if some are still to be finished."""
        if claim.handler.batch:
            await self._batch(claim)
        else:
            await self._one_by_one(claim)
        await self._give_back(claim)
        claim.open.clear()
        if claim.done:
            return claim
        self._supervisor.claims.remove(claim)
        return None

    async def settle(self, claim: Claim) -> None:
        """Finish what is done, and claim nothing."""
        if claim.done:
            await self._ack(claim)
        self._supervisor.claims.remove(claim)

    async def _ack(self, claim: Claim, begun: Sequence[int] = ()) -> None:
        job_ids = claim.take_done()
        known = await self._supervisor.report(
            self._wakeup,
            "finish jobs",
            lambda c: c.ack_batch(job_ids, claim.token, begun=begun or None),
        )
        # what the database does not know of does not begin
        claim.lost |= {*begun} - {*(known or ())}
        if known is not None:
            await self._warn_of_lost(claim, {*job_ids} - {*known})

    async def _warn_of_lost(self, claim: Claim, job_ids: set[int]) -> None:
        """These were done, and the database did not take it.

        Either an answer was lost on its way, and they are finished, or they are not ours.
        """
        for job_id in sorted(job_ids):
            found = await self._supervisor.report(
                self._wakeup, "look at a job", partial(AsyncClient.get_job, job_id=job_id)
            )
            if found is not None:
                logger.warning(
                    "job %d of %s was done, but its lease was lost",
                    job_id,
                    claim.handler.queue,
                    extra={"queue": claim.handler.queue, "job_id": job_id, "outcome": "lost"},
                )

    async def _give_back(self, claim: Claim) -> None:
        """Those that were not begun, or whose handlers were stopped by an impatient user."""
        tried, unused = claim.to_give_back()
        if tried:
            await self._supervisor.report(
                self._wakeup,
                "give jobs back",
                lambda c: c.nack_batch(tried, claim.token, error=STOPPED, **self._who(claim)),
            )
        if unused:
            await self._supervisor.report(
                self._wakeup, "give jobs back", lambda c: c.release_job_batch(unused, claim.token)
            )

    # ------------------------------------------------------------------------ handlers

    async def _one_by_one(self, claim: Claim) -> None:
        state = self._supervisor.state
        first = claim.jobs[0]
        wait = claim.handler.ack_after if claim.handler.idempotent else 0.0
        rested = time.monotonic()
        for job in claim.jobs:
            if job is not first:
                # so that it is not begun once more if that ends this process
                tell = (
                    job.is_last_attempt
                    and not claim.handler.idempotent
                    and not state.stopping
                    and job.job_id not in claim.lost
                )
                if tell or (claim.done and time.monotonic() - claim.done_since >= wait):
                    await self._ack(claim, [job.job_id] if tell else [])
            if state.stopping:
                break
            if job.job_id not in claim.lost:
                await self._single(claim, job)
            now = time.monotonic()
            if now - rested >= LONGEST_TURN:
                await asyncio.sleep(0)
                rested = time.monotonic()

    async def _single(self, claim: Claim, job: Job) -> None:
        handler, supervisor = claim.handler, self._supervisor
        begun = supervisor.reports.begin(handler.queue, [job])
        started = time.monotonic()
        result: Any = None
        error: BaseException | None = None
        claim.begin([job])
        try:
            found = handler.find(job)
            if found is None:
                raise UnknownTask(unknown_task(job))
            run = supervisor.calls[found]
            content = found.read(job)
            if found.with_job:
                result = await run(content, supervisor.running_job(found, job, claim, content))
            else:
                result = await run(content)
            result = self._text(result) if handler.keep_results else None
        except Cancelled as cancelled:
            error = self._stopped(claim, cancelled)
        except BaseException as failed:
            error = failed
        took = time.monotonic() - started
        if supervisor.state.at_once and isinstance(error, LeaseLost):
            supervisor.reports.end(begun, handler.queue, [(job, "released")], took)
            claim.lost.discard(job.job_id)
            return  # it is open: `work` gives it back
        claim.running = _NONE
        if error is None and result is None and job.job_id not in claim.lost:
            claim.finish(job.job_id)
            if supervisor.reports.silent:
                return
            outcome = "done"
        else:
            outcome, error = await self._conclude(claim, job, result, error)
            if isinstance(error, HandlerTimeout):
                claim.lost.add(job.job_id)  # so that `check` ends what still runs
        supervisor.reports.end(begun, handler.queue, [(job, outcome)], took, error)

    async def _batch(self, claim: Claim) -> None:
        handler = claim.handler
        payloads: list[Any] = []
        jobs: list[Job] = []
        for job in claim.jobs:
            try:
                payloads.append(handler.read(job))
                jobs.append(job)
            except BaseException as refused:  # a type may break in ways of its own
                begun = self._supervisor.reports.begin(handler.queue, [job])
                outcome, _ = await self._conclude(claim, job, None, refused)
                self._supervisor.reports.end(begun, handler.queue, [(job, outcome)], 0.0, refused)
        if not jobs or self._supervisor.state.stopping:
            return
        begun = self._supervisor.reports.begin(handler.queue, jobs)
        started = time.monotonic()
        each: Mapping[Any, Any] = {}
        error: BaseException | None = None
        claim.begin(jobs)
        try:
            arguments: list[Any] = [payloads]
            if handler.with_job:
                made = self._supervisor.running_job
                arguments.append(
                    [made(handler, job, claim, one) for job, one in zip(jobs, payloads)]
                )
            result = await self._supervisor.calls[handler](*arguments)
            if result is not None and not isinstance(result, Mapping):
                raise TypeError("a batch handler returns None, or a dict from job_id to an outcome")
            each = {} if result is None else {**result}
            for number in each:
                if number not in claim.running:
                    raise LookupError(f"{number!r}, which has an outcome, was not among its jobs")
        except Cancelled as cancelled:
            error = self._stopped(claim, cancelled)
        except BaseException as failed:
            error = failed
        took = time.monotonic() - started
        if self._supervisor.state.at_once and isinstance(error, LeaseLost):
            self._supervisor.reports.end(
                begun, handler.queue, [(job, "released") for job in jobs], took
            )
            claim.lost -= claim.running
            return
        claim.running = _NONE
        results, failures = self._split({} if error is not None else each, handler.keep_results)
        stored = await self._archive_together(claim, results)
        outcomes = []
        for job in jobs:
            number = job.job_id
            if number in stored:
                outcomes.append((job, "done"))
                continue
            one = error if error is not None else failures.get(number)
            outcome, _ = await self._conclude(claim, job, results.get(number), one)
            outcomes.append((job, outcome))
        if isinstance(error, HandlerTimeout):
            claim.lost |= {job.job_id for job in jobs}
        self._supervisor.reports.end(begun, handler.queue, outcomes, took, error)

    def _stopped(self, claim: Claim, cancelled: BaseException) -> BaseException:
        """The handler was cancelled: by this worker, or else by whoever runs the worker."""
        if claim.lost >= claim.running and self.running is not None and self.running.resume():
            return LeaseLost("the lease was lost")
        if self._supervisor.state.at_once:
            return LeaseLost("the worker was stopped")
        if not self._supervisor.state.stopping and not claim.lost & claim.running:
            return cancelled  # the handler did it to itself: a failure
        raise cancelled

    async def _conclude(
        self, claim: Claim, job: Job, result: str | None, error: BaseException | None
    ) -> tuple[str, BaseException | None]:
        """Tell the database what became of a job; returns the word for it, and the error."""
        number, token = job.job_id, claim.token
        if number in claim.lost:
            claim.close(number)
            return "lost", error
        if error is None and result is None:
            claim.finish(number)
            return "done", None
        claim.close(number)
        if error is None:
            archive = partial(AsyncClient.archive_job, job_id=number, lease_token=token)
            kept = Jsonb(result, str)
            held, refused = await self._or_failed(claim, job, partial(archive, result=kept))
            if refused is not None:
                return "failed", refused
            if held is False:
                await self._warn_of_lost(claim, {number})
            return "done", None
        found = claim.handler.find(job)
        word, told = conclusion(error, found.retry if found is not None else None, job.attempt)
        if word in ("rejected", "retried", "failed"):
            told |= self._who(claim)
        if word == "snoozed":
            release = partial(AsyncClient.release_job, job_id=number, lease_token=token, **told)
            _, refused = await self._or_failed(claim, job, release)
            return (word, error) if refused is None else ("failed", refused)
        if word == "released":
            await self._told(lambda c: c.release_job(number, token))
        elif word == "rejected":
            await self._told(lambda c: with_details(partial(c.reject_job, number, token), **told))
        else:
            await self._told(lambda c: with_details(partial(c.nack, number, token), **told))
        return word, error

    async def _or_failed(
        self, claim: Claim, job: Job, tell: Any
    ) -> tuple[bool | None, Exception | None]:
        """What the database refuses, as a result with a NUL or too long a delay, has failed.

        Returns the answer, and the refusal.
        """
        refusal: Exception | None = None

        async def either(client: AsyncClient) -> bool:
            nonlocal refusal
            try:
                return bool(await tell(client))
            except (psycopg.OperationalError, ReadOnlySqlTransaction):
                raise
            except Exception as refused:
                if isinstance(refused, InsufficientPrivilege):
                    await self._supervisor.check_rights(client)
                refusal = refused
                nack = partial(client.nack, job.job_id, claim.token)
                told = {"error": failure(refused), **self._who(claim)}
                return bool(await with_details(nack, **told))

        held = await self._told(either)
        return held, refusal

    async def _archive_together(self, claim: Claim, results: Mapping[int, str]) -> frozenset[int]:
        """Finish the jobs of a batch with their results, in one transaction.

        Returns which of them are done: all, or none when the database has refused one.
        """
        wanted = sorted(results.keys() - claim.lost)
        if not wanted:
            return _NONE

        async def archive(client: AsyncClient) -> set[int] | bool:
            held: set[int] = set()
            try:
                async with client.connection.transaction():
                    # by their ids, as every other call locks them
                    for text, same in groupby(wanted, results.__getitem__):
                        result = Jsonb(text, str)
                        held |= {
                            *await client.archive_job_batch([*same], claim.token, result=result)
                        }
            except (psycopg.OperationalError, ReadOnlySqlTransaction):
                raise
            except Exception as refused:
                if isinstance(refused, InsufficientPrivilege):
                    await self._supervisor.check_rights(client)
                return False
            return held

        done = await self._supervisor.report(self._wakeup, "finish jobs", archive)
        if done is False:
            return _NONE
        for number in wanted:  # or the server is away, and their leases run out
            claim.close(number)
        if done is not None:
            await self._warn_of_lost(claim, {*wanted} - {*done})
        return frozenset(wanted)

    def _who(self, claim: Claim) -> dict[str, Any]:
        """What `job_history` shows of an attempt beside its error."""
        return {"worker": self._supervisor.name, "began_at": claim.began_at}

    def _text(self, result: object) -> str | None:
        """A result as JSON; None: there is none."""
        return None if result is None else self._supervisor.pool.encoding.text("result", result)

    def _split(self, each: Mapping[int, Any], keep: bool) -> tuple[dict[int, Any], dict[int, Any]]:
        """What a batch handler has said of its jobs: results, and what else has become of them."""
        results: dict[int, Any] = {}
        failures: dict[int, Any] = {}
        for number, said in each.items():
            if not keep or said is None or issubclass(type(said), BaseException):
                failures[number] = said
                continue
            try:
                results[number] = self._text(said)
            except BaseException as refused:  # a class of the handler's may raise anything
                failures[number] = refused
        return results, failures

    async def _told(self, tell: Any) -> bool | None:
        # False may be the second answer to what was asked twice: it is not taken for a loss.
        held: bool | None = await self._supervisor.report(self._wakeup, "finish a job", tell)
        return held
