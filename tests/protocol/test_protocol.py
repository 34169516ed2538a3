"""The cases of the worker protocol, on a real server: directly, and in PgBouncer's transactions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.house import ROOT
from support.pooler import PgBouncer
from support.protocol import Mismatch, run, scenarios
from support.session import Connect, new_name

PAGE = ROOT / "python" / "docs" / "worker-protocol.md"


def _named(steps: str = "") -> list[Any]:
    """Parameters: each scenario without a step of this kind."""
    return [
        pytest.param(each["steps"], id=f"{path.stem}: {each['scenario']}")
        for path, each in scenarios()
        if not any(steps in step for step in each["steps"])
    ]


@pytest.fixture(scope="module")
def pooled(shared_dsn: str) -> Iterator[str]:
    pgbouncer = PgBouncer(shared_dsn)
    try:
        pgbouncer.start()
        yield pgbouncer.dsn
    finally:
        pgbouncer.close()


@pytest.mark.parametrize("steps", _named("nothing"))
def test_case(shared_connect: Connect, steps: Any) -> None:
    run(shared_connect(autocommit=True), new_name("queue"), steps)


@pytest.mark.parametrize("steps", _named("listen"))
def test_case_behind_a_pooler(pooled: str, steps: Any) -> None:
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection:
        run(connection, new_name("queue"), steps)


@pytest.mark.parametrize("steps", _named("nothing"))
def test_a_case_fails_where_the_answer_is_another_one(shared_connect: Connect, steps: Any) -> None:
    """The expectation of each step is replaced by another one, and this step must notice."""
    planted = 0
    for number, step in enumerate(steps):
        for other in _others(step)[number % 3 :][:1]:
            wrong = {name: step[name] for name in ("call", "with", "notified") if name in step}
            with pytest.raises(Mismatch, match=f"^step {number + 1}:"):
                run(
                    shared_connect(autocommit=True),
                    new_name("queue"),
                    [*steps[:number], wrong | other],
                )
            planted += 1
    assert planted >= len(steps) / 2


def test_the_page_says_what_a_worker_does_with_each_code() -> None:
    table = PAGE.read_text().split("## Errors")[1]
    codes = {step["error"] for _, each in scenarios() for step in each["steps"] if "error" in step}
    assert {"MQ006", "22P05"} <= codes <= {*re.findall(r"\b[0-9A-Z]{5}\b", table)}


def _others(step: Any) -> list[Any]:
    """Three expectations that the right answer to a step does not meet."""
    if "listen" in step:
        return []
    if "error" in step:
        return [{"error": "MQ000"}, {"returns": []}, {}]
    if "notified" in step:
        return [{"notified": [["pgq_queue", "planted"]]}] * 3
    rows = step.get("returns", [{}])
    changed = [
        {**row, next(reversed(row), "job_id"): "planted"} if isinstance(row, dict) else "planted"
        for row in rows
    ]
    return [
        {"returns": [*rows, "planted"]},
        {"returns": changed or ["planted"]},
        {"error": "22023"},
    ]
