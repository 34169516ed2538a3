"""What the tools share that write a file from the database as it is after a fresh install."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from build import ROOT, flatten
from pgq.embedded import Server

__all__ = ["installed", "write"]


@contextmanager
def installed() -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database of a temporary server, with pgq installed from the sources."""
    with Server() as server, psycopg.connect(server.dsn) as connection:
        connection.execute(flatten().partition("\n")[2].encode())
        yield connection


def write(path: Path, text: str, goal: str = "make reference") -> int:
    """Write a file, or with --check tell by the exit status whether the one there is up to date."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    options = parser.parse_args()
    name = path.relative_to(ROOT)
    if path.exists() and path.read_text() == text:
        return 0
    if options.check:
        print(f"{name} is out of date: run {goal}", file=sys.stderr)
        return 1
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    print(f"wrote {name}")
    return 0
