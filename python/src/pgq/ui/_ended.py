"""What became of a job: its attempts, and its result once it has ended."""

from __future__ import annotations

from typing import Any

from psycopg.rows import dict_row

from pgq import Client
from pgq._sampling import permitted

__all__ = ["attempts", "result"]


def attempts(client: Client, job_id: int) -> list[dict[str, Any]] | None:
    """Those that did not succeed, the latest first; None where the role may not ask for them."""
    with permitted(client):
        return _rows(client, "select * from pgq.job_history(job_id => %s)", job_id)
    return None


def result(client: Client, job_id: int) -> dict[str, Any] | None:
    """How it ended; None: nothing is known of it, or the role may not ask."""
    with permitted(client):
        [found] = _rows(client, "select * from pgq.get_result(job_id => %s)", job_id)
        return None if found["state"] == "gone" else found
    return None


def _rows(client: Client, call: str, job_id: int) -> list[dict[str, Any]]:
    with client.connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(call.encode(), [job_id]).fetchall()
