"""For the tests of programs that use pgq: run jobs at once, look for them, move the clock.

`pgq.testing.plugin` has fixtures for pytest. Functions whose names end in ``_async`` take what
`pgq.connect_async` makes, or a psycopg.AsyncConnection. Nothing here is for production.
"""

from __future__ import annotations

from pgq.testing._async import assert_enqueued as assert_enqueued_async
from pgq.testing._async import move_clock as move_clock_async
from pgq.testing._async import reset_clock as reset_clock_async
from pgq.testing._async import work_off as work_off_async
from pgq.testing._attempts import Attempt
from pgq.testing._sync import assert_enqueued, move_clock, reset_clock, work_off

__all__ = [
    "Attempt",
    "assert_enqueued",
    "assert_enqueued_async",
    "move_clock",
    "move_clock_async",
    "reset_clock",
    "reset_clock_async",
    "work_off",
    "work_off_async",
]
