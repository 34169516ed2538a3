"""Running the jobs that are due on the caller's connection."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg.errors import InFailedSqlTransaction, InvalidSavepointSpecification
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from pgq._async import AsyncClient
from pgq._runtime._async._pool import Pool
from pgq._runtime._async._rights import lacking
from pgq._runtime._tasks import Wakeup, caller
from pgq.testing._async._clock import client_of, move_clock
from pgq.testing._attempts import Attempt, Recorder
from pgq.worker._async._slot import Slot
from pgq.worker._async._supervisor import Supervisor
from pgq.worker._claims import Claim
from pgq.worker._handlers import Handler, Handlers
from pgq.worker._reports import Reports

__all__ = ["work_off"]

T = TypeVar("T")


async def work_off(
    handlers: Handlers,
    target: AsyncClient | AsyncConnection[Any],
    *,
    until_empty: bool = False,
    raise_errors: bool = False,
    limit: int = 10_000,
) -> list[Attempt]:
    """Do the jobs that are due, one after the other, as a worker would; return their attempts.

    All of it happens on this connection, and in its transaction where one is open: claims, what is
    told of jobs, and handlers that use the same connection. It commits nothing, and what a caller
    rolls back has not happened. A handler that raises does not abort the transaction: if it has
    failed in SQL, what it has written is rolled back to a savepoint. Handlers must not end the
    transaction.

    Jobs that handlers enqueue are done too, if they are due. Retries that are due later stay; with
    `until_empty` the clock is moved to them by `move_clock`, again and again, until no job is left.
    What a limit of the queue holds back stays.

    Timeouts of handlers, leases that run out, and stored progress are not part of it.

    raise_errors: raise what a handler has raised, once its attempt is noted as failed, unless it is
    an `Outcome`. limit: RuntimeError after so many claims of each queue, for jobs that never end.
    """
    if not isinstance(handlers, Handlers):
        raise TypeError(f"handlers is a {type(handlers).__name__}, must be pgq.worker.Handlers")
    if not handlers.by_queue:
        raise ValueError("there is no handler")
    recorder = Recorder()
    client = client_of(target)
    within = Within(client.connection, encoder=client._encoding.encoder)
    supervisor = Inline(handlers.by_queue, within, recorder)
    role = (await lacking(client.connection, ())).role
    supervisor.learn(await within.admin.list_queues(), required_for=role)
    slot = Slot(supervisor)
    looked_again = False
    for _ in range(limit):
        found = False
        for handler in supervisor.handlers.values():
            before = len(recorder.attempts)
            found = await _turn(supervisor, slot, handler) or found
            for attempt in recorder.attempts[before:]:
                _raise(attempt, raise_errors)
        if found:
            looked_again = False
            continue
        due = await supervisor.until_due() if until_empty else []
        later = [seconds for seconds in due if seconds > 0]
        if len(later) < len(due) and not looked_again:
            looked_again = True  # it is due since just now, or held back
        elif later:
            await move_clock(within, min(later))
            looked_again = False
        else:
            return recorder.attempts
    raise RuntimeError(f"no end after {limit} rounds; the last attempt: {recorder.attempts[-1:]}")


async def _turn(supervisor: Inline, slot: Slot, handler: Handler) -> bool:
    """Claim once from one queue; False: nothing is due."""
    started = time.monotonic()
    jobs = await supervisor.client.claim_job(
        handler.queue,
        max_jobs=handler.size,
        lease=handler.lease,
        label=handler.label,
        prefetch=handler.prefetch,
    )
    if not jobs:
        return False
    claim = Claim(handler, jobs, started, slot)
    supervisor.claims.add(claim)
    if await slot.work(claim) is not None:
        await slot.settle(claim)
    return True


def _raise(attempt: Attempt, errors: bool) -> None:
    error = attempt.error
    if error is not None and not isinstance(error, Exception):
        raise error  # Ctrl-C, or pytest.fail
    if error is not None and errors and attempt.outcome == "failed":
        raise error


class Within(AsyncClient):
    """A client in a transaction of somebody else, which outlives a call that fails."""

    @property
    def in_transaction(self) -> bool:
        """Whether one is open."""
        return self._connection.info.transaction_status == TransactionStatus.INTRANS

    async def _fetch(
        self, statement: bytes, values: list[Any], arguments: Mapping[str, Any]
    ) -> list[TupleRow]:
        if not self.in_transaction:
            return await super()._fetch(statement, values, arguments)
        async with self._connection.transaction():
            return await super()._fetch(statement, values, arguments)

    async def retry(self, function: Callable[[Any], Any], **options: Any) -> Any:
        """As that of a client; in a transaction there is one attempt."""
        if not self.in_transaction:
            return await super().retry(function, **options)
        async with self._connection.transaction():
            return await function(self)


class OneConnection(Pool):
    """The connection of the caller in the place of a pool."""

    def __init__(self, client: Within) -> None:
        super().__init__("", {}, "", 1, client._encoding)
        self.client = client
        self.broken: BaseException | None = None

    async def ask(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Call with the connection, unless a handler has ended its transaction."""
        if self.broken is not None:
            raise self.broken
        return await call(self.client)


class Inline(Supervisor):
    """What a worker is around its handlers, without waiting and keeping of leases."""

    def __init__(self, handlers: Mapping[str, Handler], client: Within, recorder: Recorder) -> None:
        self.one = OneConnection(client)
        super().__init__(handlers, self.one, Reports([recorder]), None, None, None)
        self.client = client
        self._recorder = recorder
        self.calls = {
            one: self._recorded(one, caller(one.function, None, self.abandoned))
            for handler in handlers.values()
            for one in handler.each()
        }

    async def report(self, wakeup: Wakeup, what: str, call: Callable[[Any], Any]) -> Any:
        """Errors are the caller's."""
        return await self.pool.ask(call)

    async def until_due(self) -> list[float]:
        """Seconds until a job of each queue is due, of those that have one."""
        due = [await self._ask_due(self.client, name) for name in self.handlers]
        return [seconds for seconds in due if seconds is not None]

    def _recorded(self, handler: Handler, function: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any) -> Any:
            inside = self.client.in_transaction
            if inside:
                await self.client.connection.execute("savepoint pgq_work_off")
            try:
                returned = await function(*arguments)
            except BaseException:
                if inside:
                    await self._leave(handler.queue)
                raise
            if inside and not await self._leave(handler.queue):
                raise InFailedSqlTransaction(
                    "the handler has returned after a failed statement: what it wrote is undone"
                )
            self._recorder.returned(returned, handler.batch)
            return returned

        return call

    async def _leave(self, queue: str) -> bool:
        """End the savepoint; False: the transaction was aborted, and goes on from there."""
        connection = self.client.connection
        status = connection.info.transaction_status
        try:
            if status == TransactionStatus.INERROR:
                await connection.execute("rollback to savepoint pgq_work_off")
            if status != TransactionStatus.IDLE:
                await connection.execute("release savepoint pgq_work_off")
                return status == TransactionStatus.INTRANS
        except InvalidSavepointSpecification:
            pass
        self.one.broken = RuntimeError(
            f'the handler of queue "{queue}" has ended the transaction that work_off runs in'
        )
        raise self.one.broken
