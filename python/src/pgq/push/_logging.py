"""The log of a push worker: events with facts, and never any content or secret."""

from __future__ import annotations

import json
import logging
from typing import Any

from pgq import _logs
from pgq._runtime._errors import Logger

__all__ = ["LOG", "note", "set_up"]

LOG = Logger("pgq.push")


def note(level: int, event: str, /, **fields: Any) -> None:
    """Log an event with its facts; as text they stand behind it."""
    if LOG.isEnabledFor(level):
        facts = " ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())
        LOG.log(level, "%s %s", event, facts, extra={"pgq_event": event, "pgq_fields": fields})


def set_up(level: str, form: str) -> None:
    """Write the lines to the standard error."""
    _logs.set_up("warning", form)
    LOG.setLevel(level.upper())
    # they log urls and headers, which may hold secrets
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
