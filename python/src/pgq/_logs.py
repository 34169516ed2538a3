"""The log of a program on its standard error, as text, or as one JSON object for each record."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone

from pgq._runtime._errors import plain

__all__ = ["set_up"]

_TEXT = "%(asctime)s %(levelname)s %(message)s"

_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
"""What every record has; all else was given with it, as the fields of a job."""


class JsonLines(logging.Formatter):
    """The time, the level, the logger and the message of a record, and the fields given with it."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; an exception with its traceback is the field `exception`."""
        time = datetime.fromtimestamp(record.created, timezone.utc)
        given = {name: value for name, value in vars(record).items() if name not in _OWN}
        event = given.pop("pgq_event", None)
        given.update(given.pop("pgq_fields", {}))
        line = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage() if event is None else event,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        fields = {name: value for name, value in given.items() if name not in line}
        return json.dumps({**line, **fields}, ensure_ascii=False, default=plain)


def set_up(level: str | None, form: str | None) -> None:
    """Log to the standard error; what is not given is info and text, or as the program has it."""
    root = logging.getLogger()
    if form is not None or not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(_TEXT))
        root.handlers[:] = [handler]
        level = level or "info"
    if level is not None:
        root.setLevel(level.upper())
