"""Clients of a fault run that keep the house: cleanup, and schedules."""

from __future__ import annotations

import time

from fault_runs.client import Role

__all__ = ["KEEPERS"]


class Cleaner(Role):
    """Calls cleanup."""

    def step(self) -> None:
        with self.client.unit("cleanup", single=True) as told:
            found = self.client.ask("select action, count(*) from pgq.cleanup() group by action")
            told["did"] = dict(found)
        time.sleep(self.rng.random() * 0.2)


class Runner(Role):
    """Writes what schedules are due."""

    def step(self) -> None:
        with self.client.unit("run schedules"):
            self.client.ask("select * from pgq.run_schedules(%s)", [self.rng.choice([1, 10, 1000])])
            self.client.ask("select pgq.heartbeat(%s)", [self.client.name])
        time.sleep(self.rng.random() * 0.2)


KEEPERS = {"cleaner": Cleaner, "runner": Runner}
