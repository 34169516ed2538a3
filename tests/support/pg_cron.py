"""What stands in for pg_cron in tests of rules, on servers that do not have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["STAND_IN", "use_pg_cron"]

STAND_IN = Path(__file__).with_suffix(".sql")


def use_pg_cron(pgq: Any) -> None:
    """Every call of the functions for the owner: those that ask pg_cron, and the bounds."""
    pgq.session.execute(STAND_IN.read_bytes())
    pgq.schedule_cleanup()
    pgq.unschedule_cleanup()
    pgq.set_storage_bounds(max_retentions=100)
