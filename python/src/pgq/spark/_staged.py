"""What a task of a write tells the driver."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from pgq.spark._send import Part

__all__ = ["Staged"]


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task tells the driver."""

    task: int
    parts: tuple[Part, ...]
    """What it has staged for each topic, or the queue, in each database."""
    query: str | None
    """The id of the streaming query."""
    refused: str | None = None
    """What is wrong with a row, so that the task has staged nothing."""
