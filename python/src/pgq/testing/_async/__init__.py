"""The asynchronous helpers. The synchronous ones are generated from this folder: edit this one."""

from __future__ import annotations

from pgq.testing._async._clock import move_clock, reset_clock
from pgq.testing._async._enqueued import assert_enqueued
from pgq.testing._async._work_off import work_off

__all__ = ["assert_enqueued", "move_clock", "reset_clock", "work_off"]
