"""Runs the cases of tests/protocol, whose README describes their format, on a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from support.house import ROOT

__all__ = ["CASES", "Mismatch", "run", "scenarios"]

CASES = ROOT / "tests" / "protocol" / "cases"

_JSON = {"details", "headers", "payload", "progress", "result"}

Variables = dict[str, Any]


class Mismatch(AssertionError):
    """A step was answered otherwise than it expects."""


def scenarios() -> list[tuple[Path, Any]]:
    """All of them, each with its file."""
    return [
        (path, each) for path in sorted(CASES.iterdir()) for each in json.loads(path.read_text())
    ]


def run(connection: psycopg.Connection[Any], queue: str, steps: Iterable[Any]) -> None:
    """Run the steps of a scenario in autocommit, on a queue that does not exist yet."""
    known: Variables = {"queue": queue}
    for number, step in enumerate(steps, 1):
        if "listen" in step:
            connection.execute(sql.SQL("listen {}").format(sql.Identifier(step["listen"])))
            continue
        until = time.monotonic() + step.get("within", 0)
        while True:
            answer = _notified(connection) if "notified" in step else _call(connection, step, known)
            expected = {
                name: step.get(name)
                for name in ("notified", "returns", "error")
                if name in step or name == "error"  # what is not expected is one
            }
            found = dict(known)
            if all(_matches(expected[name], answer.get(name), found) for name in expected):
                known = found
                break
            if time.monotonic() >= until:
                raise Mismatch(f"step {number}: expected {expected}, got {answer}, with {known}")


def _call(connection: psycopg.Connection[Any], step: Any, known: Variables) -> dict[str, Any]:
    """What a call returns, or its SQLSTATE."""
    given = {name: _text(name, value, known) for name, value in step.get("with", {}).items()}
    arguments = [sql.SQL("{} => %s").format(sql.Identifier(name)) for name in given]
    statement = sql.SQL("select to_jsonb(r) from pgq.{}({}) as r").format(
        sql.Identifier(step["call"]), sql.SQL(", ").join(arguments)
    )
    try:
        rows = connection.execute(statement, [*given.values()]).fetchall()
    except psycopg.Error as error:
        return {"error": error.sqlstate, "message": str(error)}
    return {"returns": [row for (row,) in rows]}


def _notified(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """The next notification, if one comes within some time."""
    heard = list(connection.notifies(timeout=10, stop_after=1))
    return {"notified": [[each.channel, each.payload] for each in heard]}


def _text(name: str, value: Any, known: Variables) -> str | None:
    """An argument as PostgreSQL reads it; its type is that of the function's argument."""
    if name in _JSON:
        return json.dumps(value)
    if isinstance(value, list):
        return f"{{{','.join(str(_text(name, each, known) or 'null') for each in value)}}}"
    if isinstance(value, str) and value.startswith("$"):
        value = known[value[1:]]
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _matches(expected: Any, answer: Any, known: Variables) -> bool:
    """Whether an answer is the expected one; takes what it binds into ``known``."""
    if isinstance(expected, list):
        return (
            isinstance(answer, list)
            and len(expected) == len(answer)
            and all(_matches(*pair, known) for pair in zip(expected, answer))
        )
    if isinstance(expected, dict):
        return isinstance(answer, dict) and all(
            name in answer and _matches(value, answer[name], known)
            for name, value in expected.items()
        )
    if isinstance(expected, str) and expected.startswith("$"):
        name = expected[1:]
        return answer is not None and (name == "any" or known.setdefault(name, answer) == answer)
    return bool(type(expected) is type(answer) and expected == answer)
