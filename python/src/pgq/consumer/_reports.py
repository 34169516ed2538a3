"""What a consumer says of its messages: log records and hooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgq._runtime._errors import Logger, plain, trace
from pgq.worker._reports import LEVELS, Reports

__all__ = ["MessageReports", "logger"]

logger = Logger("pgq.consumer")


class MessageReports(Reports):
    """One log record for each call of a handler."""

    def log(
        self,
        source: str,
        outcomes: Sequence[tuple[Any, str]],
        seconds: float,
        error: BaseException | None,
    ) -> None:
        outcome = outcomes[0][1]
        level = LEVELS[outcome]
        if not logger.isEnabledFor(level):
            return
        first, last = outcomes[0][0], outcomes[-1][0]
        fields = {
            "topic": source,
            "partition": first.partition,
            "first_offset": first.log_offset,
            "last_offset": last.log_offset,
            "messages": len(outcomes),
            "outcome": outcome,
            "duration": seconds,
        }
        logger.log(
            level,
            "%s/%d, offsets %d to %d: %s%s",
            source,
            first.partition,
            first.log_offset,
            last.log_offset,
            outcome,
            f": {plain(error)}" if error is not None else "",
            extra=fields,
            exc_info=trace(error) if outcome == "failed" else None,
        )
