"""What has become of jobs."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from pgq._async._transactions import Transactions
from pgq._durations import duration
from pgq.errors import ResultTimeout
from pgq.messages import JobResult

__all__ = ["Results"]

FIRST_PAUSE = 0.02
LONGEST_PAUSE = 1.0


class Results(Transactions):
    """The results of jobs."""

    async def get_result(self, job_id: int) -> JobResult:
        """What has become of a job, with its result.

        Of jobs that have ended, those of a queue with `keep_results` are known for its
        `retention`, and dead letters in any queue; all others are 'gone'.
        """
        return await self._row(JobResult, "get_result", job_id=job_id)

    async def await_result(
        self, job_id: int, *, timeout: timedelta | float | None = None
    ) -> JobResult:
        """Wait until a job has ended, and return what has become of it.

        It calls `get_result`, first every 20 ms, then less often, at last every second; no
        transaction is open in between. Without `timeout` it waits for ever: a job that nobody
        works on ends when it expires. The state of the result says how the job has ended; a failed
        job raises nothing, and neither does one that is 'gone'.

        Raises ResultTimeout, a TimeoutError, when the job has not ended by then; it goes on.

        The connection must not be in a transaction: ProgrammingError. Commit the enqueue first: a
        job of a transaction that is still open elsewhere is 'gone', as if it had never been.
        """
        self._require_idle("await_result")
        deadline = None
        if timeout is not None:
            deadline = time.monotonic() + duration("timeout", timeout).total_seconds()
        pause = FIRST_PAUSE
        while True:
            async with self._connection.transaction():
                found = await self.get_result(job_id)
            if found.ended:
                return found
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ResultTimeout(job_id, found.state)
                pause = min(pause, left)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
