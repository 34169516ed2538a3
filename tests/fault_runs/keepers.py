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


IN_QUEUE = "select job_id, label as met from pgq.job where xmin = pg_current_xact_id()::xid"

CHANGED = {
    "cancel_jobs": (
        "select a.job_id, coalesce(a.label, j.key) as met from pgq.job_archive as a"
        " inner join pgq.archived_jobs as j on j.job_id = a.job_id"
        " where a.xmin = pg_current_xact_id()::xid"
    ),
    "retry_jobs": IN_QUEUE,
    "redrive": IN_QUEUE,
    "purge_queue": "select null::bigint as job_id, null as met from generate_series(1, {taken})",
}
"""The jobs that the transaction has changed, and what they have where the filter looks."""


class Operator(Role):
    """Goes through the jobs that match a filter, each page in a transaction of its own."""

    def step(self) -> None:
        call = self.rng.choice(list(CHANGED))
        queue, more = "swept", {"label": call.split("_")[0]}
        if call in ("redrive", "purge_queue"):
            more["error_contains"] = "odd"
        elif call == "cancel_jobs" and self.rng.random() < 0.1:
            found = self.client.ask(
                "select ordered_key from pgq.job where ordered_key is not null"
                " order by random() limit 1"
            )
            queue, more = "ordered", {"key": found[0][0] if found else "none"}
        leased = ", leased => true" if call == "cancel_jobs" and self.rng.random() < 0.3 else ""
        names = "".join(f", {name} => %s" for name in more)
        after_id: int | None = 0
        while after_id is not None:
            with self.client.unit("act", call=call, **more) as told:
                [(taken, after_id)] = self.client.ask(
                    "select taken, after_id"
                    f" from pgq.{call}(%s, max_jobs => %s, after_id => %s{names}{leased})",
                    [queue, self.rng.choice([1, 3, 100]), after_id, *more.values()],
                )
                noted = self.client.connection.execute(
                    "insert into act (call, wanted, job_id, met) select %s, %s, c.job_id, c.met"
                    f" from ({CHANGED[call].format(taken=taken)}) as c".encode(),
                    [call, next(iter(more.values()))],
                )
                told.update(taken=taken, noted=noted.rowcount)
        self.rest()


KEEPERS = {"cleaner": Cleaner, "runner": Runner, "operator": Operator}
