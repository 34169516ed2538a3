"""What a job does outside of the database, once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast
from uuid import UUID

import psycopg

from pgq._async._groups import Groups
from pgq._async._transactions import Transactions
from pgq.errors import EffectInterrupted
from pgq.messages import EffectState, Job

__all__ = ["Effects"]

T = TypeVar("T")


class Effects(Transactions, Groups):
    """The effects of jobs."""

    async def run_once(
        self,
        job: Job,
        effect: str,
        function: Callable[[], Awaitable[T]],
        *,
        at_least_once: bool | None = None,
        not_done: type[Exception] | tuple[type[Exception], ...] | None = None,
    ) -> T:
        """Run `function`, unless an attempt of the job has done so; returns its result in any case.

        It is what the job does outside of this database, and `effect` its name: a job may have
        several. The result is a JSON value, kept for later attempts until the job is finished::

            receipt = client.run_once(job, "mail", lambda: send(job.payload))
            client.ack(job.job_id, job.lease_token)

        A note is committed before `function` runs, and its result behind it. Where an attempt ends
        in between, by a crash or because `function` raises, nobody knows whether the effect has
        happened. It is not run again then: later attempts raise EffectInterrupted, so the effect
        happens **at most once**. With ``at_least_once=True`` they run it again.

        When `function` raises one of `not_done`, nothing has happened: the note is taken back, the
        error is raised, and a later attempt runs it.

        Raises LeaseLost, and runs nothing, when the lease of the job is lost. One that is lost
        while `function` runs does not stop it, so let the lease last for longer.

        The connection must not be in a transaction, and `function` must leave it so:
        ProgrammingError.
        """
        self._require_idle("run_once")
        place = (job.job_id, job.lease_token, effect)
        begun = await self.retry(lambda c: c.begin_effect(*place, at_least_once=at_least_once))
        if begun.state == "finished":
            return cast("T", begun.result)
        if begun.state != "begun":
            raise EffectInterrupted(job.job_id, effect, begun.attempt, begun.begun_at)
        nothing_done = not_done if not_done is not None else ()
        try:
            result = await function()
        except nothing_done:
            await self.retry(lambda c: c.jobs.delete_effect(*place))
            raise
        try:
            await self.retry(lambda c: c.finish_effect(*place, result=result))
        except psycopg.DataError:  # a text that the database cannot have: the effect has happened
            await self.retry(lambda c: c.finish_effect(*place, result=c._storable(result)))
        return result

    async def begin_effect(
        self,
        job_id: int,
        lease_token: UUID,
        effect: str,
        *,
        at_least_once: bool | None = None,
    ) -> EffectState:
        """Note that an effect of a job is about to run, or get its state.

        Commit, run it only if the state is 'begun', and call `finish_effect`; `run_once` does all
        of that. The state is 'finished' when it has happened, and 'interrupted' when it was begun
        before and nobody knows; with ``at_least_once=True`` it is then begun again.

        Raises LeaseLost when the lease of the job is lost: do not run the effect.
        """
        return await self._row(
            EffectState,
            "begin_effect",
            job_id=job_id,
            lease_token=lease_token,
            effect=effect,
            at_least_once=at_least_once,
        )

    async def finish_effect(
        self, job_id: int, lease_token: UUID, effect: str, *, result: Any = None
    ) -> bool:
        """Note that an effect has happened, with its result (any JSON value).

        Whoever began it may say so, even after its lease, and so may whoever has the job now.
        False: it was forgotten, or another worker has begun it again or finished it.
        """
        return await self._value(
            bool,
            "finish_effect",
            job_id=job_id,
            lease_token=lease_token,
            effect=effect,
            result=result,
        )
