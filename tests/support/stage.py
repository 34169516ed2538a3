"""A database in which a write of Spark is stopped on its way, to see what is there by then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.bulk import contents_of, staged
from support.cluster import PATIENCE
from support.log import new_topic
from support.session import Connect
from support.waiting import wait_until

__all__ = ["BARRIER", "PASSWORD", "ROWS", "TASKS", "Stage"]

Location = tuple[str, dict[str, str]]

BARRIER = 4711
"""The advisory lock that the test holds while others shall wait."""

# The server trusts everyone, and so takes any; the logs of the cluster must not have it.
PASSWORD = "S3CRET-of-the-cluster"

ROWS = 1000
TASKS = 2


class Stage:
    """The test's database: what it holds, who waits in it, and a barrier for others to wait at."""

    def __init__(self, connect: Connect, location: Location) -> None:
        self.connection = connect(autocommit=True)
        self.topic = new_topic(self.connection, partitions=TASKS)
        self._connect = connect
        self._location = location
        self.connection.execute(
            f"""
            create table public.passed (pid integer);

            create function public.pass() returns trigger language plpgsql as $$
            begin
                insert into public.passed values (pg_backend_pid());
                perform pg_advisory_xact_lock_shared({BARRIER});
                return null;
            end
            $$
            """
        )

    def order(self, *, attempts: bool = False, **options: Any) -> dict[str, Any]:
        """The write that the tests make; each row may tell which attempt of its task made it."""
        url, properties = self._location
        options = {"producer": "loader", "seq": 1, "chunk_rows": 100, **options}
        return {
            "url": url,
            "properties": {"password": PASSWORD, **properties},
            "topic": self.topic,
            "rows": ROWS,
            "tasks": TASKS,
            "attempts": attempts,
            "options": options,
        }

    def publish(self, broker: Any, **options: Any) -> Any:
        """The same write by the session of the tests, a driver beside the one of an order."""
        numbers = broker._spark.range(0, ROWS, 1, TASKS).selectExpr("cast(id as string) as value")
        return broker.publish(numbers, topic=self.topic, **self.order(**options)["options"])

    def stop_commit_after(self, event: str) -> None:
        """Let a COMMIT wait at the barrier after an insert or an update, as ``event`` says."""
        self.connection.execute(
            f"create constraint trigger pass after {event} deferrable initially deferred"
            f" for each row execute function public.pass()"
        )

    def stop_after(self, event: str, condition: str) -> None:
        """Let a statement wait at the barrier."""
        self.connection.execute(
            f"create trigger pass after {event} for each row when ({condition})"
            f" execute function public.pass()"
        )

    def open_barrier(self) -> None:
        """Let those who come later pass; those who wait already go on waiting."""
        self.connection.execute(
            "create or replace function public.pass() returns trigger language plpgsql"
            " as $$ begin return null; end $$"
        )

    @contextmanager
    def barrier(self) -> Iterator[None]:
        """While in the block, others wait."""
        with self._connect() as holder:
            holder.execute("select pg_advisory_xact_lock(%s)", [BARRIER])
            yield

    @contextmanager
    def partitions_locked(self) -> Iterator[None]:
        """While in the block, nobody publishes to the topic."""
        with self._connect() as holder:
            holder.execute("select from pgq.partition for update")
            yield

    def waiting(self, event: str, query: str) -> list[int]:
        """The server processes that wait for a lock of this kind in such a statement."""
        rows = self.connection.execute(
            """
            select pid
            from pg_stat_activity
            where datname = current_database()
                and wait_event_type = 'Lock'
                and wait_event = %s
                and query ilike %s
            """,
            [event, query],
        ).fetchall()
        return [pid for (pid,) in rows]

    def until_waiting(self, event: str, query: str, count: int = 1) -> list[int]:
        """Wait until so many wait, and return them."""

        def enough() -> list[int]:
            found = self.waiting(event, query)
            return found if len(found) == count else []

        return wait_until(enough, PATIENCE, f"for {count} x {query} to wait for {event}")

    def blocker_of(self, pid: int) -> int:
        """The only server process that another one waits for."""
        row = self.connection.execute("select pg_blocking_pids(%s)", [pid]).fetchone()
        assert row is not None
        (blocker,) = row[0]
        return int(blocker)

    def terminate(self, pid: int) -> None:
        """End a server process, which rolls back."""
        self.connection.execute("select pg_terminate_backend(%s)", [pid])
        self.until_gone(pid)

    def until_gone(self, pid: int) -> None:
        """Wait until a server process has ended."""
        wait_until(
            lambda: (
                not self.connection.execute(
                    "select pid from pg_stat_activity where pid = %s", [pid]
                ).fetchone()
            ),
            PATIENCE,
            f"for {pid} to end",
        )

    def passed(self) -> set[int]:
        """The server processes that came by the barrier, and committed that."""
        return {pid for (pid,) in self.connection.execute("select pid from public.passed")}

    def visible(self) -> list[str]:
        """The contents of all that can be seen in the topic."""
        found = contents_of(self.connection, self.topic)
        return [
            content.decode() if isinstance(content, bytes) else str(content)
            for contents in found.values()
            for content in contents
        ]

    def tasks_staged(self) -> int:
        """How many tasks have committed what they staged."""
        row = self.connection.execute("select count(*) from pgq.staged_task").fetchone()
        assert row is not None
        return int(row[0])

    def assert_every_row_once(self, *, left_behind: int = 0) -> None:
        """Every row is there once, offsets have no gaps, and no more of the way is left."""
        numbers = [int(content.partition(":")[0]) for content in self.visible()]
        assert sorted(numbers) == list(range(ROWS))
        places = self.connection.list_offsets(topic=self.topic)
        assert sum(place.last_offset - place.first_offset + 1 for place in places) == ROWS
        assert staged(self.connection) == left_behind
        self.assert_closed()

    def attempts(self) -> list[set[int]]:
        """Which attempts of each task the rows are of."""
        found: list[set[int]] = [set() for _ in range(TASKS)]
        for content in self.visible():
            number, _, attempt = content.partition(":")
            found[int(number) * TASKS // ROWS].add(int(attempt))
        return found

    def assert_closed(self) -> None:
        """No write is open, and no chunks are remembered."""
        row = self.connection.execute(
            "select (select count(*) from pgq.bulk_write where committed_at is null),"
            " (select count(*) from pgq.published_chunk)"
        ).fetchone()
        assert row == (0, 0)
