"""What the page reads of large tables is bounded: by limits and by index, however many jobs."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq._sampling import MOST_OF_ALL, MOST_OF_ONE, queue_figures
from pgq.ui._history import History
from pgq.ui._query import Query
from pgq.ui._reads import Reads
from pgq.ui._source import Source
from plans.counting import Reader

pytestmark = pytest.mark.slow

JOBS = 120_000
LETTERS = 40_000
READS: dict[str, tuple[int, list[dict[str, Any]]]] = {
    "queue": (6_000, [{"queue": "work"}, {"queue": "letters"}]),
    "jobs": (1_000, [{"queue": "work"}, *({"queue": "work", "state": state} for state in (
        "ready", "leased", "delayed", "waiting"))]),
    "job": (100, [{"job_id": 100_000}]),
    "dead": (1_000, [{"queue": "letters"}, {"queue": "work"}]),
    "errors": (1_000, [{"queue": "work"}]),
    "matching": (11_000, [{"act": "cancel", "queue": "work", "label": "none"}]),
}  # fmt: skip
"""For each document the index entries that it may read, and what is asked of it."""
SEARCHES = [{"label": "none"}, {"error_contains": "none"}, {"since": "1h ago", "label": "none"}]


@pytest.fixture(scope="module")
def full(databases: Any) -> Any:
    """A database with many jobs that are due, and many dead letters."""
    with databases.copy() as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        client = Client(connection)
        client.admin.create_queue("letters", max_attempts=1)
        client.admin.create_queue("work")
        for queue in ["letters"] * (LETTERS // 10_000) + ["work"] * (JOBS // 10_000):
            client.enqueue_batch(queue, bodies=[b"x"] * 10_000)
        while jobs := client.claim_job("letters", max_jobs=1000):
            client.nack_batch([one.job_id for one in jobs], jobs[0].lease_token, error="full")
        connection.execute("vacuum analyze")
        yield dsn


def counted(dsn: str, name: str, given: dict[str, Any]) -> int:
    """The index entries that a document reads; the tables of jobs are never read as a whole."""
    reader = Reader(dsn)
    source = Source(dsn)
    answer = Reads(source, History(source))._asked[name]
    reader.follow(lambda: answer(Client(reader.connection), Query(given)))
    reader.close()
    # metrics reads a sample of the pages, which counts as a scan
    assert name == "queue" or not reader.last.scanned & {"job", "dead_job"}, (name, given)
    return reader.last.entries


@pytest.mark.parametrize("name", READS)
def test_a_view_reads_little(full: str, name: str) -> None:
    most, asked = READS[name]
    for given in asked:
        assert counted(full, name, given) <= most, given


@pytest.mark.parametrize("given", SEARCHES)
def test_a_search_looks_at_the_newest_alone(full: str, given: dict[str, Any]) -> None:
    entries = counted(full, "jobs", {"queue": "work", **given})
    assert 100_000 <= entries < 101_000


def test_errors_are_read_by_index(full: str) -> None:
    assert LETTERS <= counted(full, "errors", {"queue": "letters"}) < LETTERS + 1_000


def test_figures_of_many_jobs_are_estimates(full: str) -> None:
    """Those of a look, and of one queue."""
    with psycopg.connect(full, autocommit=True) as connection:
        rows, estimated = queue_figures(Client(connection))
        figures = {one.queue: one for one in rows}
        assert estimated == {"letters": "≈", "work": "≈"}
        assert JOBS * 0.8 < figures["work"].ready < JOBS * 1.2
        assert LETTERS * 0.8 < figures["letters"].dead < LETTERS * 1.2
        assert (figures["work"].dead, figures["letters"].ready) == (0, 0)
        assert figures["work"].oldest_ready_at is not None


def test_who_may_not_call_metrics_counts_up_to_a_limit(full: str) -> None:
    reader = Reader(full)
    client = Client(reader.connection)

    def counts(queue: str | None = None) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
        found, signs = reader.follow(lambda: queue_figures(client, queue, measured={}))
        assert not reader.last.scanned & {"job", "dead_job"}
        return {one.queue: (one.ready, one.dead) for one in found}, signs

    every = {"letters": (0, MOST_OF_ALL), "work": (MOST_OF_ALL, 0)}
    assert counts() == (every, {"letters": "≥", "work": "≥"})
    assert reader.last.entries < 2 * MOST_OF_ALL + 1_000
    assert counts("work") == ({"work": (MOST_OF_ONE, 0)}, {"work": "≥"})
    assert reader.last.entries < MOST_OF_ONE + 1_000
    assert counts("letters") == ({"letters": (0, LETTERS)}, {})
    [exact] = client.monitor.queue_stats("work")
    assert exact.ready == JOBS  # the limit has gone
    reader.close()
