"""A PgBouncer that is killed while producers write, workers work and consumers read."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from pgq import AsyncClient, Client
from pgq.consumer import AsyncConsumer, Consumer
from pgq.producer import AsyncProducer, Producer
from pgq.worker import AsyncWorker, Worker
from support.pooler import PgBouncer
from support.waiting import PATIENCE, aside, results, wait_until
from support.working import handler_for, working

KINDS = pytest.mark.parametrize("tasks", [False, True], ids=["threads", "tasks"])
KILLS = 3
KEYS = 5
WINDOW = 20
"""So many messages of a writer are under way at a time."""
OPTIONS: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "connect_timeout": 10}


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    """One that no pooler stands before, with a topic, its groups, a queue, and a table."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        client = Client(connection)
        client.admin.create_topic("events", partitions=4)
        client.admin.create_group("events", "leased")
        client.admin.create_group("events", "once")
        client.admin.create_queue("work", no_limit=["max_attempts"])
        connection.execute("create table taken (n serial, payload integer)")
        yield client


# --------------------------------------------------------------------------- writing


def _key(number: int) -> str:
    return f"k{number % KEYS}"


class Writing:
    """A producer that writes numbers until it is told to stop, a few at a time."""

    def __init__(self, tasks: bool, dsn: str, **target: str) -> None:
        self.answers: list[Any] = []
        self._stop = threading.Event()
        options = {"conninfo": dsn, "idempotent": True, "linger": 0.002, **target}
        self.ended: Future[None] = aside(
            (lambda: asyncio.run(self._as_task(options)))
            if tasks
            else (lambda: self._write(options))
        )

    def _write(self, options: dict[str, Any]) -> None:
        with Producer(**options) as producer:
            send = producer.publish if "topic" in options else producer.enqueue
            waiting: list[Any] = []
            while not self._stop.is_set() or waiting:
                while len(waiting) < WINDOW and not self._stop.is_set():
                    number = len(self.answers) + len(waiting)
                    waiting.append(send(number, key=_key(number)))
                self.answers.append(waiting.pop(0).result(PATIENCE))

    async def _as_task(self, options: dict[str, Any]) -> None:
        async with AsyncProducer(**options) as producer:
            send = producer.publish if "topic" in options else producer.enqueue
            waiting: list[Any] = []
            while not self._stop.is_set() or waiting:
                while len(waiting) < WINDOW and not self._stop.is_set():
                    number = len(self.answers) + len(waiting)
                    waiting.append(send(number, key=_key(number)))
                self.answers.append(await asyncio.wait_for(waiting.pop(0), PATIENCE))

    def stop(self) -> None:
        self._stop.set()


# --------------------------------------------------------------------------- reading once


class Reading:
    """Somebody who consumes and notes what came in one transaction, and connects when he must."""

    def __init__(self, tasks: bool, dsn: str) -> None:
        self._dsn = dsn
        self._stop = threading.Event()
        run = (lambda: asyncio.run(self._as_task())) if tasks else self._run
        self.ended: Future[None] = aside(run)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with psycopg.connect(self._dsn, **OPTIONS) as connection:
                    client = Client(connection)
                    while not self._stop.is_set():
                        with connection.transaction():
                            messages = client.consume("events", "once", max_messages=10)
                            for message in messages:
                                connection.execute(*_taken(message))
                        if not messages:
                            self._stop.wait(0.01)
            except psycopg.OperationalError:
                continue

    async def _as_task(self) -> None:
        while not self._stop.is_set():
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._dsn, **OPTIONS
                ) as connection:
                    client = AsyncClient(connection)
                    while not self._stop.is_set():
                        async with connection.transaction():
                            messages = await client.consume("events", "once", max_messages=10)
                            for message in messages:
                                await connection.execute(*_taken(message))
                        if not messages:
                            await asyncio.sleep(0.01)
            except psycopg.OperationalError:
                continue

    def stop(self) -> None:
        self._stop.set()


def _taken(message: Any) -> tuple[bytes, list[Any]]:
    return b"insert into taken (payload) values (%s)", [message.payload]


@contextmanager
def stopped(*running: Writing | Reading) -> Iterator[None]:
    """They are told to stop behind the block, however it ends, and their errors are raised."""
    try:
        yield
    finally:
        for each in running:
            each.stop()
    results(*(each.ended for each in running))


# --------------------------------------------------------------------------- what is there


def taken(client: Client) -> list[int]:
    rows = client.connection.execute("select payload from taken order by n").fetchall()
    return [payload for (payload,) in rows]


def stored(client: Client) -> dict[tuple[int, int], Any]:
    """The numbers in the topic by their places."""
    found = {}
    for offsets in client.bulk.list_offsets("events"):
        place = (offsets.partition, offsets.first_offset, offsets.last_offset)
        if offsets.last_offset >= offsets.first_offset:
            for message in client.bulk.fetch_range("events", *place):
                found[message.partition, message.log_offset] = message.payload
    return found


def once_and_in_order(numbers: Iterable[int], count: int) -> bool:
    """Whether each number is there once, and those of each key in their order."""
    found = [*numbers]
    by_key = defaultdict(list)
    for number in found:
        by_key[_key(number)].append(number)
    return sorted(found) == [*range(count)] and all(
        part == sorted(part) for part in by_key.values()
    )


def lag(client: Client, group: str) -> int:
    return sum(part.lag for part in client.monitor.group_lag("events", group))


# --------------------------------------------------------------------------- killed now and then


@pytest.mark.slow
@KINDS
def test_it_is_killed_while_all_are_at_work(
    pgbouncer: PgBouncer, client: Client, tasks: bool
) -> None:
    """All go on by themselves; nothing is lost, and what is done in a transaction is done once."""
    seen: list[int] = []
    done: Counter[int] = Counter()
    dsn = pgbouncer.dsn
    kinds: tuple[Any, Any] = (AsyncConsumer, AsyncWorker) if tasks else (Consumer, Worker)
    consumer = kinds[0]("leased", conninfo=dsn, concurrency=2, poll=0.1)
    worker = kinds[1](dsn, concurrency=4, poll=0.1)

    def count(payload: int) -> None:
        done[payload] += 1

    consumer.handler("events", lease=4, max_messages=10)(handler_for(kinds[0], seen.append))
    worker.handler("work", lease=4)(handler_for(kinds[1], count))
    with working(consumer), working(worker):
        published = Writing(tasks, dsn, topic="events")
        enqueued = Writing(tasks, dsn, queue="work")
        reading = Reading(tasks, dsn)

        def progress() -> list[int]:
            results(*(each.ended for each in (published, enqueued, reading) if each.ended.done()))
            return [
                len(published.answers),
                len(enqueued.answers),
                len(seen),
                len(done),
                len(taken(client)),
            ]

        def all_go_on() -> None:
            wanted = [count + 30 for count in progress()]
            wait_until(
                lambda: all(now >= then for now, then in zip(progress(), wanted, strict=True)),
                2 * PATIENCE,
                f"for {wanted} of {progress()}",
            )

        with stopped(published, enqueued, reading):
            for kill in range(KILLS + 1):
                all_go_on()
                if kill < KILLS:
                    pgbouncer.kill()
                    pgbouncer.start()
            for writer in (published, enqueued):
                writer.stop()
            results(published.ended, enqueued.ended)
            messages, jobs = len(published.answers), len(enqueued.answers)
            wait_until(lambda: len(done) == jobs, 2 * PATIENCE, "for the last job")
            wait_until(lambda: lag(client, "leased") == 0, 2 * PATIENCE, "for the last lease")
            wait_until(lambda: lag(client, "once") == 0, 2 * PATIENCE, "for the last message")

    there = stored(client)
    assert once_and_in_order((there[place] for place in sorted(there)), messages)
    for number, answer in enumerate(published.answers):
        assert there[answer.partition, answer.log_offset] == number
    assert once_and_in_order(taken(client), messages)
    # a lease whose end nobody could be told of is given out again, and so are its messages
    assert once_and_in_order(dict.fromkeys(seen), messages)
    assert len(seen) <= messages + KILLS * 2 * 10

    ids = [answer.job_id for answer in enqueued.answers]
    ended = client.jobs.archived_jobs("work")
    assert {job.job_id: job.payload for job in ended} == dict(zip(ids, range(jobs), strict=True))
    assert len(ended) == jobs
    assert {job.outcome for job in ended} == {"acked"}
    assert {*done} == {*range(jobs)}
    assert sum(done.values()) <= jobs + KILLS * 4
    [stats] = client.monitor.queue_stats("work")
    assert (stats.ready, stats.leased, stats.delayed, stats.dead) == (0, 0, 0, 0)


# ------------------------------------------------------------------------ killed before an answer


class Held:
    """A lock that a call has to wait for; it ends, and commits, when nobody hears its answer."""

    def __init__(self, dsn: str, client: Client, pgbouncer: PgBouncer, lock: str) -> None:
        self._observer = client.connection
        self._pgbouncer = pgbouncer
        self._blocker = psycopg.connect(dsn)
        self._blocker.execute(lock.encode())

    def answer_is_lost(self, call: str, committed: Callable[[], bool]) -> None:
        """Kill it while the call waits, let the call commit, and start it again."""
        wait_until(lambda: self.waits(call), PATIENCE, f"for {call} to wait")
        self._pgbouncer.kill()
        self._blocker.rollback()
        wait_until(committed, PATIENCE, f"for {call} to commit")
        self._pgbouncer.start()

    def waits(self, call: str) -> bool:
        return bool(
            self._observer.execute(
                "select from pg_stat_activity where datname = current_database()"
                " and wait_event_type = 'Lock' and query ilike %s",
                [f"%{call}%"],
            ).fetchall()
        )

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *error: object) -> None:
        self._blocker.close()


@KINDS
def test_the_answer_to_a_producer_is_lost(
    dsn: str, pgbouncer: PgBouncer, client: Client, tasks: bool
) -> None:
    """It writes again until it is told, and what was written already is not written twice."""
    writing = Writing(tasks, pgbouncer.dsn, topic="events")
    with stopped(writing):
        wait_until(lambda: writing.answers, PATIENCE)
        with Held(dsn, client, pgbouncer, "lock table pgq.partition in exclusive mode") as held:
            wait_until(lambda: held.waits("publish_batch"), PATIENCE)
            before = len(stored(client))
            held.answer_is_lost("publish_batch", lambda: len(stored(client)) > before)
        count = len(writing.answers) + WINDOW
        wait_until(lambda: len(writing.answers) > count or writing.ended.done(), PATIENCE)
    there = stored(client)
    assert once_and_in_order((there[place] for place in sorted(there)), len(writing.answers))
    for number, answer in enumerate(writing.answers):
        assert there[answer.partition, answer.log_offset] == number


@KINDS
def test_the_answer_to_a_worker_is_lost(
    dsn: str,
    pgbouncer: PgBouncer,
    client: Client,
    tasks: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The job is finished, is not done again, and nobody says that it was lost."""
    done: list[int] = []
    go = threading.Event()
    kind: Any = AsyncWorker if tasks else Worker
    worker = kind(pgbouncer.dsn, concurrency=1, poll=0.1)

    def wait(payload: int) -> None:
        done.append(payload)
        assert go.wait(PATIENCE)

    # a plain function in both: it blocks
    worker.handler("work", lease=30)(wait)
    with working(worker):
        first = client.enqueue("work", 1)
        wait_until(lambda: done, PATIENCE)
        with Held(dsn, client, pgbouncer, "lock table pgq.job in exclusive mode") as held:
            go.set()
            held.answer_is_lost("finish_and_claim", lambda: client.get_job(first.job_id) is None)
        client.enqueue("work", 2)
        wait_until(lambda: len(client.jobs.archived_jobs("work")) == 2, PATIENCE)
    assert done == [1, 2]
    assert "lease was lost" not in caplog.text
    assert [job.outcome for job in client.jobs.archived_jobs("work")] == ["acked", "acked"]


@KINDS
def test_the_answer_to_a_consumer_is_lost(
    dsn: str, pgbouncer: PgBouncer, client: Client, tasks: bool
) -> None:
    """Its messages are committed, and do not come again."""
    seen: list[int] = []
    go = threading.Event()
    kind: Any = AsyncConsumer if tasks else Consumer
    consumer = kind("leased", conninfo=pgbouncer.dsn, concurrency=1, poll=0.1)

    def wait(payload: int) -> None:
        seen.append(payload)
        assert go.wait(PATIENCE)

    consumer.handler("events", lease=30)(wait)
    with working(consumer):
        client.publish_batch("events", [1, 2], partition=0)
        wait_until(lambda: seen, PATIENCE)
        lock = "lock table pgq.group_partition in exclusive mode"
        with Held(dsn, client, pgbouncer, lock) as held:
            go.set()
            held.answer_is_lost("commit_offset", lambda: lag(client, "leased") == 0)
        client.publish("events", 3, partition=0)
        wait_until(lambda: lag(client, "leased") == 0, PATIENCE)
    assert seen == [1, 2, 3]


@KINDS
def test_the_answer_to_a_commit_is_lost(
    dsn: str, pgbouncer: PgBouncer, client: Client, tasks: bool
) -> None:
    """Whoever reads in a transaction need not know whether it has committed: he reads on."""
    client.connection.execute(
        "create function wait() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock_shared(1); return null; end';"
        " create constraint trigger wait after insert on taken deferrable initially deferred"
        " for each row execute function wait()"
    )
    reading = Reading(tasks, pgbouncer.dsn)
    with stopped(reading):
        with Held(dsn, client, pgbouncer, "select pg_advisory_xact_lock(1)") as held:
            client.publish_batch("events", [*range(3)], partition=0)
            held.answer_is_lost("commit", lambda: taken(client) == [0, 1, 2])
        client.publish_batch("events", [3, 4], partition=0)
        wait_until(lambda: lag(client, "once") == 0, PATIENCE)
    assert taken(client) == [*range(5)]
