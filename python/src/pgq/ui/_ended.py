"""What became of a job: its attempts, and its result once it has ended."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row

from pgq import Client

__all__ = ["attempts", "result"]


def attempts(client: Client, job_id: int) -> list[dict[str, Any]] | None:
    """Those that did not succeed, the latest first; None where the role may not ask for them."""
    try:
        return _rows(client, "select * from pgq.job_history(job_id => %s)", job_id)
    except psycopg.errors.InsufficientPrivilege:
        return None


def result(client: Client, job_id: int) -> dict[str, Any] | None:
    """How it ended; None: nothing is known of it, or the role may not ask."""
    try:
        [found] = _rows(client, "select * from pgq.get_result(job_id => %s)", job_id)
    except psycopg.errors.InsufficientPrivilege:
        return None
    return None if found["state"] == "gone" else found


def _rows(client: Client, call: str, job_id: int) -> list[dict[str, Any]]:
    # a savepoint: what is refused leaves the transaction as it was
    with client.connection.transaction(), client.connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(call.encode(), [job_id]).fetchall()
