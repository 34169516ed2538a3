"""Clients of a fault run that read topics, in each of the four ways."""

from __future__ import annotations

import time
from typing import Any

from fault_runs.client import LEVELS, Role, RollBack

__all__ = ["CONSUMERS", "TRANSACTIONAL"]

TRANSACTIONAL = {
    "log": ["exact", "whole", "external"],
    "brief": ["whole"],
    "later": ["whole"],
    "once": ["exact"],
    "bulk": ["whole"],
    "wide": ["exact", "whole"],
}
"""Groups whose messages have their effect in the transaction that takes them, by topic."""

SEEN = "insert into seen (topic, consumer_group, partition, log_offset, name) values "


class Consumer(Role):
    """One of a group's members."""

    def see(self, topic: str, group: str, rows: list[Any]) -> None:
        """Have the effect of messages: partition, offset, payload."""
        values: list[Any] = []
        for partition, offset, payload in rows:
            values += [topic, group, partition, offset, payload["name"]]
        if rows:
            command = SEEN + ", ".join(["(%s, %s, %s, %s, %s)"] * len(rows))
            self.client.connection.execute(command.encode(), values)


class Exact(Consumer):
    """claim_offsets and fetch_range, with the effect in their transaction."""

    def step(self) -> None:
        topic = self.rng.choice(["log", "log", "once", "wide"])
        size = self.rng.choice([1, 10, 100])
        level = self.rng.choice(LEVELS)
        with self.client.unit("exact", topic=topic, group="exact", level=level) as told:
            claimed = self.client.ask(
                "select * from pgq.claim_offsets(%s, 'exact', %s)", [topic, size]
            )
            for place in claimed:
                self.see(
                    topic,
                    "exact",
                    self.client.ask(
                        "select partition, log_offset, payload from pgq.fetch_range(%s, %s, %s, %s)"
                        " order by log_offset",
                        [topic, *place],
                    ),
                )
            told["places"] = [list(place) for place in claimed]
            if self.rng.random() < 0.1:
                raise RollBack
        if not claimed:
            self.rest()


class Whole(Consumer):
    """consume, with the effect in its transaction."""

    def step(self) -> None:
        topic = self.rng.choice(["log", "brief", "later", "bulk", "wide"])
        size = self.rng.choice([1, 10, 100])
        level = self.rng.choice(LEVELS)
        with self.client.unit("whole", topic=topic, group="whole", level=level) as told:
            rows = self.client.ask(
                "select partition, log_offset, payload from pgq.consume(%s, 'whole', %s)",
                [topic, size],
            )
            self.see(topic, "whole", rows)
            told["places"] = [[rows[0][0], rows[0][1], rows[-1][1]]] if rows else []
        if not rows:
            self.rest()


class External(Consumer):
    """fetch_range; the reader keeps its own offsets beside the effects."""

    def step(self) -> None:
        with self.client.unit("external", topic="log", group="external") as told:
            [(partition, following)] = self.client.ask(
                "select partition, following from external_offset order by random() limit 1"
                " for update"
            )
            [(last,)] = self.client.ask(
                "select last_offset from pgq.list_offsets('log') where partition = %s", [partition]
            )
            last = min(last, following + self.rng.choice([0, 20, 99]))
            rows = []
            if last >= following:
                rows = self.client.ask(
                    "select partition, log_offset, payload from pgq.fetch_range('log', %s, %s, %s)"
                    " order by log_offset",
                    [partition, following, last],
                )
                self.see("log", "external", rows)
                self.client.ask_nothing(
                    f"update external_offset set following = {last + 1}"
                    f" where partition = {partition}"
                )
            told["places"] = [[partition, rows[0][1], rows[-1][1]]] if rows else []
        if not rows:
            self.rest()


class Leased(Consumer):
    """poll, work, commit_offset with the token; it gives up, gives back, and comes too late."""

    def step(self) -> None:
        lease = self.rng.choice([0.3, 1.0, 3.0])
        about = {"topic": "log", "group": "leased", "lease": lease}
        # a claim that a crash may undo: its messages come again
        unflushed = self.rng.random() < 0.2
        with self.client.unit("poll", unflushed=unflushed, **about) as told:
            if unflushed:
                self.client.ask_nothing("set local synchronous_commit = off")
            rows = self.client.ask(
                "select lease_token, leased_until, partition, log_offset, payload, attempt"
                " from pgq.poll('log', 'leased', %s, lease => %s * interval '1 second')",
                [self.rng.choice([1, 10, 50]), lease],
            )
            if rows:
                told["token"], told["until"] = rows[0][0], rows[0][1].timestamp()
                told["partition"], told["first"] = rows[0][2], rows[0][3]
                told["names"] = [row[4]["name"] for row in rows]
        if not rows:
            self.rest()
            return
        token, _, partition, first, _, _ = rows[0]
        held = {"token": token, "partition": partition}
        what = self.rng.random()
        if what < 0.05:
            return
        if what < 0.1:
            time.sleep(lease)
        if 0.1 < what < 0.2:
            with self.client.unit("release", single=True, **held):
                self.client.ask(
                    "select pgq.release_poll('log', 'leased', %s, %s)", [partition, token]
                )
            return
        if 0.2 < what < 0.3:
            with self.client.unit("extend", single=True, **held):
                self.client.ask(
                    "select pgq.extend_poll('log', 'leased', %s, %s)", [partition, token]
                )
        until = first + (len(rows) // 2 if 0.3 < what < 0.4 else len(rows) - 1)
        with self.client.unit("commit", group="leased", until=until, **held):
            self.client.ask(
                "select pgq.commit_offset('log', 'leased', %s, %s, %s)", [partition, until, token]
            )


class Manual(Consumer):
    """fetch and commit_offset; the only member of its group."""

    def step(self) -> None:
        with self.client.unit("fetch", group="manual", single=True) as told:
            rows = self.client.ask(
                "select partition, log_offset, payload from pgq.fetch('log', 'manual', %s, %s)",
                [self.rng.choice([1, 30]), self.rng.randrange(3)],
            )
            if rows:
                told["partition"], told["first"] = rows[0][:2]
                told["names"] = [row[2]["name"] for row in rows]
        if not rows:
            self.rest()
            return
        partition, until = rows[-1][:2]
        with self.client.unit("commit", group="manual", partition=partition, until=until):
            self.client.ask("select pgq.commit_offset('log', 'manual', %s, %s)", [partition, until])


CONSUMERS = {
    "exact": Exact,
    "whole": Whole,
    "external": External,
    "leased": Leased,
    "manual": Manual,
}
