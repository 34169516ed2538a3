"""What the tests of the data source's writers share."""

from __future__ import annotations

from typing import Any

from support.bulk import staged
from support.session import Session

__all__ = ["assert_nothing_left", "messages", "numbers"]


def messages(log: Session, topic: str, columns: str = "body") -> list[Any]:
    """All messages of a topic, by partition."""
    return log.execute(
        f"select {columns} from pgq.messages where topic = %s"
        " order by partition, log_offset".encode(),
        [topic],
    ).fetchall()


def numbers(spark: Any, rows: int, tasks: int = 2) -> Any:
    """The numbers from 0, as texts."""
    return spark.range(0, rows, 1, tasks).selectExpr("cast(id as string) as value")


def assert_nothing_left(log: Session) -> None:
    """No write is open, and nothing is staged."""
    assert staged(log) == 0
    assert log.execute(
        "select count(*) from pgq.bulk_write where committed_at is null"
    ).fetchone() == (0,)
