"""The same tour in every driver, directly and through PgBouncer in transaction mode.

Each program is the example of its driver in python/docs/drivers. It prints the lines of
transcript.txt, and leaves in the database what an independent query finds: nothing twice.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from support.clock import Clock
from support.drivers import PROGRAMS, run_program
from support.pooler import PgBouncer

TOURS = sorted(path for path in PROGRAMS.iterdir() if path.stem.lower().startswith("tour"))

QUICK = {"tour.psql", "tour_psycopg.py"}
"""Those of what every machine with a checkout has; the others run in the complete suite."""

tours = pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=() if path.name in QUICK else pytest.mark.slow)
        for path in TOURS
    ],
)


def _holds_what_the_tour_wrote(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        messages = connection.execute(
            "select log_offset, key, payload, body from pgq.messages"
            " where topic = 'orders' order by partition, log_offset"
        ).fetchall()
        assert messages == [
            (1, "ada", {"text": "Grüße, 東京 🐘"}, None),
            (2, "ada", {"text": "two"}, None),
            (3, None, {"text": "three"}, None),
            (4, "bob", {"text": "four"}, None),
            (5, None, None, b"\x00\xffA"),
        ]
        assert connection.execute(
            "select committed_offset, lag from pgq.group_lag"
            " where topic = 'orders' and consumer_group = 'billing'"
        ).fetchall() == [(5, 0)]
        assert connection.execute(
            "select ready, leased, delayed, dead from pgq.queue_stats where queue = 'mail'"
        ).fetchall() == [(0, 0, 1, 0)]
    clock = Clock(dsn)
    clock.install()
    with psycopg.connect(dsn, autocommit=True) as connection:
        claim = "select payload, attempt from pgq.claim_job(queue => 'mail', max_jobs => 10)"
        clock.advance("119 minutes")
        assert connection.execute(claim).fetchall() == []
        clock.advance("2 minutes")
        assert connection.execute(claim).fetchall() == [({"to": "bob"}, 1)]


def _lines(path: Path, dsn: str) -> list[str]:
    return run_program(path, dsn).splitlines()


@tours
def test_tour(path: Path, dsn: str) -> None:
    assert _lines(path, dsn) == (PROGRAMS / "transcript.txt").read_text().splitlines()
    _holds_what_the_tour_wrote(dsn)


@tours
def test_tour_through_pgbouncer(path: Path, dsn: str, pgbouncer: PgBouncer) -> None:
    assert _lines(path, pgbouncer.dsn) == (PROGRAMS / "transcript.txt").read_text().splitlines()
    _holds_what_the_tour_wrote(dsn)


def test_there_is_a_program_for_each_driver() -> None:
    assert len(TOURS) == 15
