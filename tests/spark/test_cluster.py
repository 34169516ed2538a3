"""Writes whose executors or drivers are killed on the way: every row once, and none too early."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq.local_spark import SparkSetupError, find_java, find_jdbc_driver
from support.bulk import contents_of, staged
from support.cluster import PATIENCE, Cluster, Driver
from support.log import new_topic
from support.session import Connect
from support.waiting import aside, wait_until

pytest.importorskip("pyspark")

Location = tuple[str, dict[str, str]]

BARRIER = 4711
"""The advisory lock that the test holds while others shall wait."""

# The server trusts everyone, and so takes any; the logs of the cluster must not have it.
PASSWORD = "S3CRET-of-the-cluster"

ROWS = 1000
TASKS = 2


# ---------------------------------------------------------------------------- processes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster for the tests of this module."""
    try:
        find_java()
        find_jdbc_driver()
    except SparkSetupError as error:
        pytest.skip(str(error))
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def driver(cluster: Cluster) -> Iterator[Driver]:
    """The driver on the cluster."""
    with Driver(cluster.url, cluster.folder / "driver.log") as started:
        yield started


@pytest.fixture
def local_driver(cluster: Cluster, tmp_path: Path) -> Iterator[Driver]:
    """A driver that is its own executor, for a test that kills it."""
    with Driver("local[2]", tmp_path / "driver.log") as started:
        yield started


# ---------------------------------------------------------------------------- the database


class Stage:
    """The test's database: what it holds, who waits in it, and a barrier for others to wait at."""

    def __init__(self, connect: Connect, location: Location) -> None:
        self.connection = connect(autocommit=True)
        self.client = self.connection
        self.topic = new_topic(self.client, partitions=TASKS)
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
        found = contents_of(self.client, self.topic)
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
        places = self.client.list_offsets(topic=self.topic)
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


@pytest.fixture
def stage(connect: Connect, location: Location) -> Stage:
    """The test's database with a topic, and means to stop a write on its way."""
    return Stage(connect, location)


# ---------------------------------------------------------------------------- killed executors

INSERT = "insert into pgq.write_chunks%"


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["commits", "rolls back"])
def test_an_executor_is_killed_while_its_commit_runs(
    cluster: Cluster, driver: Driver, stage: Stage, fate: str
) -> None:
    """Its transaction counts if it was committed after all, and else that of the next attempt."""
    stage.stop_commit_after("insert on pgq.staged_task")
    with stage.barrier():
        driver.start("publish", **stage.order(attempts=True))
        first = set(stage.until_waiting("advisory", "commit", count=TASKS))
        assert stage.visible() == []

        cluster.kill_executor()
        (again,) = stage.until_waiting("transactionid", INSERT)
        assert again not in first
        killed = stage.blocker_of(again)
        assert killed in first
        assert stage.visible() == []

        if fate == "rolls back":
            stage.terminate(killed)
            stage.until_waiting("advisory", "commit", count=TASKS)
            assert stage.visible() == []

    assert driver.result() == {"messages": ROWS, "repeated": False}
    stage.assert_every_row_once()
    assert sorted(stage.attempts(), key=max) == ([{0}, {0}] if fate == "commits" else [{0}, {1}])


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["commits", "rolls back"])
def test_an_executor_is_killed_amid_chunks_that_are_published_as_they_come(
    cluster: Cluster, driver: Driver, stage: Stage, fate: str
) -> None:
    """The next attempt leaves out what was published, and goes on behind it."""
    stage.stop_after("insert on pgq.published_chunk", "new.chunk = 2")
    with stage.barrier():
        driver.start("publish", **stage.order(mode="fast"))
        first = set(stage.until_waiting("advisory", INSERT, count=TASKS))
        assert len(stage.visible()) == TASKS * 2 * 100

        cluster.kill_executor()
        (again,) = stage.until_waiting("transactionid", INSERT)
        killed = stage.blocker_of(again)
        assert killed in first
        assert len(stage.visible()) == TASKS * 2 * 100

        if fate == "rolls back":
            stage.terminate(killed)
            stage.until_waiting("advisory", INSERT, count=TASKS)

    assert driver.result() == {"messages": ROWS, "repeated": False}
    stage.assert_every_row_once()
    assert stage.passed() == (first if fate == "commits" else first - {killed} | {again})


@pytest.mark.slow
def test_a_password_is_in_no_log_of_the_cluster(
    cluster: Cluster, driver: Driver, stage: Stage
) -> None:
    assert driver.run("publish", **stage.order()) == {"messages": ROWS, "repeated": False}
    logs = [*cluster.folder.glob("*.log"), *cluster.folder.rglob("stderr")]
    assert {"master.log", "worker1.log", "driver.log", "stderr"} <= {log.name for log in logs}
    for log in logs:
        assert PASSWORD not in log.read_text(), log
    # the executors' logs do tell what they did
    assert any("Finished task" in log.read_text() for log in logs if log.name == "stderr")


# ---------------------------------------------------------------------------- killed drivers


def publish_here(broker: Any, stage: Stage) -> Any:
    """The same write by the session of the tests, another driver."""
    numbers = broker._spark.range(0, ROWS, 1, TASKS).selectExpr("cast(id as string) as value")
    return broker.publish(numbers, stage.topic, **stage.order()["options"])


@pytest.mark.slow
def test_the_driver_is_killed_before_it_commits(
    local_driver: Driver, stage: Stage, broker: Any
) -> None:
    with stage.partitions_locked():
        local_driver.start("publish", **stage.order())
        (committing,) = stage.until_waiting("transactionid", "%pgq.commit_write%")
        assert staged(stage.connection) > 0
        local_driver.kill()
        stage.terminate(committing)
    assert stage.visible() == []

    done = publish_here(broker, stage)
    assert (done.messages, done.repeated) == (ROWS, False)
    stage.assert_every_row_once()


@pytest.mark.slow
def test_the_driver_is_killed_after_its_commit_and_before_it_knows(
    local_driver: Driver, stage: Stage, broker: Any
) -> None:
    stage.stop_commit_after("update of committed_at on pgq.bulk_write")
    with stage.barrier():
        local_driver.start("publish", **stage.order())
        (committing,) = stage.until_waiting("advisory", "%pgq.commit_write%")
        assert stage.visible() == []
        local_driver.kill()
    stage.until_gone(committing)
    stage.assert_every_row_once()

    done = publish_here(broker, stage)
    assert (done.messages, done.repeated) == (ROWS, True)
    stage.assert_every_row_once()


@pytest.mark.slow
def test_tasks_of_a_killed_driver_come_too_late(driver: Driver, stage: Stage, broker: Any) -> None:
    """What they commit after the write was started again is not published, and is cleaned up.

    The last one that needs the driver on the cluster.
    """
    stage.stop_commit_after("insert on pgq.staged_task")
    with stage.barrier():
        driver.start("publish", **stage.order())
        late = stage.until_waiting("advisory", "commit", count=TASKS)
        driver.kill()
        stage.open_barrier()
        # Were these waited for, it would wait for ever.
        done = aside(lambda: publish_here(broker, stage)).result(PATIENCE)
        assert (done.messages, done.repeated) == (ROWS, False)
        # the mark of the write that they belong to
        stage.assert_every_row_once(left_behind=1)
        assert set(stage.waiting("advisory", "commit")) == set(late)
    for pid in late:
        stage.until_gone(pid)

    assert stage.passed() == set(late)
    assert staged(stage.connection) > 0
    stage.client.cleanup()
    stage.assert_every_row_once()


# ---------------------------------------------------------------------------- nobody is killed


@pytest.mark.parametrize("mode", ["atomic", "fast"])
def test_a_task_that_goes_on_after_the_commit_is_refused(
    stage: Stage, broker: Any, mode: str
) -> None:
    done = broker.publish(
        broker._spark.sql("select '0' as value"), stage.topic, mode=mode, producer="p", seq=1
    )
    with pytest.raises(psycopg.Error) as caught:
        stage.connection.execute(
            "insert into pgq.write_chunks (write_id, task, task_attempt, chunk, lengths,"
            " last_chunk, packed_bodies) values (%s, 1, 'zombie', 0, '{1}', true, '1')",
            [done.write_id],
        )
    assert caught.value.sqlstate == "MQ008"
    assert stage.visible() == ["0"]
    assert staged(stage.connection) == 0


def test_the_connection_is_lost_while_the_commit_runs(stage: Stage, broker: Any) -> None:
    """The driver asks again, and the database knows whether it was committed."""
    stage.stop_commit_after("update of committed_at on pgq.bulk_write")
    with stage.barrier():
        write = aside(lambda: publish_here(broker, stage))
        (committing,) = stage.until_waiting("advisory", "%pgq.commit_write%")
        stage.terminate(committing)
        stage.until_waiting("advisory", "%pgq.commit_write%")
        assert stage.visible() == []
    done = write.result(PATIENCE)
    assert (done.messages, done.repeated) == (ROWS, False)
    stage.assert_every_row_once()


def failing(rows: Any, dsn: str) -> Any:
    """The rows, but the second of two tasks waits at the barrier when it has them, and fails."""

    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1:
            with psycopg.connect(dsn) as connection:
                connection.execute(f"select pg_advisory_xact_lock_shared({BARRIER})")
            raise RuntimeError("the task fails for good")

    return rows.mapInArrow(fail, rows.schema)


def test_a_task_that_fails_for_good_leaves_nothing(
    spark: Any, stage: Stage, broker: Any, dsn: str
) -> None:
    rows = failing(spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as value"), dsn)
    with stage.barrier():
        write = aside(lambda: broker.publish(rows, stage.topic, producer="p", seq=1))
        wait_until(lambda: stage.tasks_staged() == 1, PATIENCE, "for the first task")
        assert stage.visible() == []
    with pytest.raises(Exception, match="the task fails for good"):
        write.result(PATIENCE)

    assert stage.visible() == []
    assert staged(stage.connection) == 0
    stage.assert_closed()


def test_plain_jdbc_leaves_what_other_tasks_wrote(
    spark: Any, stage: Stage, location: Location, dsn: str
) -> None:
    """The documented contrast: the view publish_rows has a transaction for each task."""
    rows = spark.range(0, 100, 1, 2).selectExpr(
        f"'{stage.topic}' as topic", "cast(id as string) as payload"
    )
    url, properties = location
    properties = {**properties, "driver": "org.postgresql.Driver"}
    with stage.barrier():
        write = aside(
            lambda: failing(rows, dsn).write.jdbc(url, "pgq.publish_rows", "append", properties)
        )
        wait_until(lambda: len(stage.visible()) == 50, PATIENCE, "for the first task")
    with pytest.raises(Exception, match="the task fails for good"):
        write.result(PATIENCE)

    assert sorted(stage.visible(), key=int) == [str(number) for number in range(50)]
