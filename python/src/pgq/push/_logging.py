"""Log lines that programs can read: one JSON object each, and never any content or secret."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone
from typing import Any

from pgq._runtime._errors import Logger

__all__ = ["LOG", "note", "set_up"]

LOG = Logger("pgq.push")


def note(level: int, event: str, /, **fields: Any) -> None:
    """Log an event with its facts; as text they stand behind it."""
    if LOG.isEnabledFor(level):
        facts = " ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())
        LOG.log(level, "%s %s", event, facts, extra={"pgq_event": event, "pgq_fields": fields})


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, timezone.utc)
        line = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "pgq_event", record.name),
            **getattr(record, "pgq_fields", {"message": record.getMessage()}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up(level: str) -> None:
    """Write the lines to the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOG.setLevel(level.upper())
    # they log urls and headers, which may hold secrets
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
