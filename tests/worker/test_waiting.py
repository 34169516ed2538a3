"""What slots and heartbeats wait with, by itself: no database is needed."""

from __future__ import annotations

import asyncio
import fcntl
import math
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgq._runtime import _tasks, _threads
from pgq._runtime._schedule import Schedule
from pgq._runtime._state import Abandoned
from pgq._runtime._sync import _pool, _slots
from pgq.worker._reports import logger

HIGH = 1100
"""A number of a file that `select` cannot take."""


def test_a_program_with_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= HIGH:
        pytest.skip("this process may not have so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH + 10), hard))
    near, far = socket.socketpair()
    number = fcntl.fcntl(near.fileno(), fcntl.F_DUPFD, HIGH)
    wakeup = _threads.Wakeup()
    try:
        far.send(b"!")
        wakeup.wait_with(number, 30.0)
        os.read(number, 1)
        wakeup.wake()
        wakeup.wait_with(number, 30.0)
    finally:
        os.close(number)
        wakeup.close()
        near.close()
        far.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def other_at(line: str, module: Any, act: Callable[[], Any]) -> Iterator[None]:
    """Let another thread act each time before such a line of a module is run."""
    lines = Path(module.__file__).read_text().splitlines()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line" and line in lines[frame.f_lineno - 1]:
            other = threading.Thread(target=act)
            other.start()
            other.join()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_two_threads_want_the_last_connection(dsn: str) -> None:
    pool = _pool.Pool(dsn, {}, "", 2)
    free = pool.take()
    pool.give(free)
    with other_at("_free.pop()", _pool, pool._free.clear):
        taken = pool.take()
    assert taken is not free
    for client in (free, taken):
        client.connection.close()


def test_a_bell_that_rings_as_its_slot_wakes_up() -> None:
    slots = _slots.Slots(["mail"], _pool.Pool("", {}, "", 1), 0.01, logger)
    slots.schedule.begin("mail")
    wakeup = slots.new_wakeup()
    with other_at("_idle.remove(wakeup)", _slots, slots.wake):
        slots.wait_for_work(wakeup)


def test_two_that_run_in_one_loop_hear_the_same_signal() -> None:
    heard: list[str] = []

    async def run() -> None:
        with _tasks.signals(lambda: heard.append("first")):
            with _tasks.signals(lambda: heard.append("second")):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.05)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.05)

    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("nobody"))
    try:
        asyncio.run(run())
        assert sorted(heard) == ["first", "first", "second"]
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard[-1] == "nobody"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_plain_functions_have_as_many_threads_as_they_need() -> None:
    """More than the executor of asyncio has on any machine, and none that outlives the program."""
    together = threading.Barrier(40)
    daemons: list[bool] = []

    def meet(number: int) -> int:
        daemons.append(threading.current_thread().daemon)
        together.wait(30.0)
        return number

    async def run() -> list[int]:
        call = _tasks.caller(meet, None, Abandoned(logger))
        return await asyncio.gather(*(call(number) for number in range(40)))

    assert asyncio.run(run()) == [*range(40)]
    assert all(daemons)


def test_what_a_plain_function_raises_arrives() -> None:
    def fail() -> None:
        raise SystemExit(3)

    async def run() -> None:
        await _tasks.caller(fail, None, Abandoned(logger))()

    with pytest.raises(SystemExit):
        asyncio.run(run())


def test_a_look_that_finds_nothing_waits() -> None:
    schedule = Schedule(["a"], 1.0)
    assert schedule.next(0.0) == "a"
    assert schedule.next(0.0) is None
    schedule.looked("a", 0.0, found=False)
    assert 0.0 < schedule.pause(0.0) <= 0.05


def test_a_ring_during_a_look_is_not_lost() -> None:
    """What came may have come behind what the look saw, whatever that has found."""
    for found, more in ((True, False), (False, True)):
        schedule = Schedule(["a"], 3600.0)
        assert schedule.next(0.0) == "a"
        assert schedule.wake("a")
        assert schedule.looked("a", 0.0, found=found, more=more)
        assert schedule.next(0.0) == "a"
        assert not schedule.looked("a", 0.0, found=False)
        assert schedule.next(0.0) is None, "one more look is enough"


def test_a_ring_during_two_looks_is_not_lost() -> None:
    """The first one that ends does not take it for both."""
    schedule = Schedule(["a"], 3600.0)
    schedule.begin("a")
    schedule.begin("a")
    schedule.wake("a")
    assert schedule.looked("a", 0.0, found=True)
    assert schedule.looked("a", 0.0, found=False)
    assert schedule.next(0.0) == "a"
    assert not schedule.looked("a", 0.0, found=False)


def test_what_is_heard_is_left_alone() -> None:
    """Until something is due, and for the longest wait at most."""
    schedule = Schedule(["a"], 1.0, 600.0)
    schedule.hear(["a"], 0.0)
    for due_in, least, most in ((math.inf, 480.0, 600.0), (70.0, 70.0, 70.0), (9e9, 480.0, 600.0)):
        schedule.wake()
        assert schedule.next(0.0) == "a"
        assert schedule.asks("a")
        schedule.looked("a", 0.0, found=False, due_in=due_in)
        assert least <= schedule.pause(0.0) <= most


def test_what_is_held_back_is_looked_at_again() -> None:
    """After waits that grow up to a second."""
    schedule = Schedule(["a"], 1.0, 600.0)
    schedule.hear(["a"], 0.0)
    waits = []
    now = 0.0
    for _ in range(12):
        assert schedule.next(now) == "a"
        schedule.looked("a", now, found=False, due_in=-5.0)
        waits.append(schedule.pause(now))
        now += waits[-1]
    assert waits[0] <= 0.05
    assert waits[2] > waits[0]
    assert [max(waits), waits[-1]] == pytest.approx([1.0, 1.0])
    assert schedule.next(now) == "a"
    schedule.looked("a", now, found=False, due_in=math.inf)
    assert schedule.pause(now) > 400.0


def test_one_look_asks_for_all() -> None:
    """Of several at a time the last one; none that is woken, nor before a short wait."""
    schedule = Schedule(["a"], 1.0, 600.0)
    schedule.hear(["a"], 0.0)
    for _ in range(3):
        schedule.begin("a")
    for last in (False, False, True):
        assert schedule.asks("a") is last
        schedule.looked("a", 0.0, found=False, due_in=math.inf if last else None)
    assert schedule.pause(0.0) > 400.0
    schedule.begin("a")
    schedule.wake("a")
    assert not schedule.asks("a")
    schedule.looked("a", 0.0, found=False)
    for longest in (0.05, 1.0):
        short = Schedule(["a"], longest, longest)
        short.hear(["a"], 0.0)
        short.begin("a")
        assert not short.asks("a")


def test_what_is_not_heard_any_more_is_looked_at_soon() -> None:
    """And again and again, until it is heard, however long the longest wait is."""
    schedule = Schedule(["a"], 600.0)
    schedule.hear(["a"], 0.0)
    assert schedule.next(0.0) == "a"
    schedule.looked("a", 0.0, found=False, due_in=math.inf)
    assert schedule.hear([], 10.0, lost=True)
    assert schedule.pause(10.0) <= 0.051
    now = 11.0
    for _ in range(20):
        assert schedule.next(now) == "a"
        schedule.looked("a", now, found=False, due_in=math.inf)
        assert schedule.pause(now) <= 5.0
        now += schedule.pause(now)
    assert not schedule.hear(["a"], now)
