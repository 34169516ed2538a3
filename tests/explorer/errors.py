"""Which errors a call may raise: those that are documented, and where."""

from __future__ import annotations

import re
from functools import cache

from explorer.history import Event, History
from explorer.run import RETRIED
from explorer.script import HOUSE
from support.house import ROOT

__all__ = ["check_errors"]

_CODE = re.compile(r"^\| ([0-9A-Z]{5}) \|", re.MULTILINE)

READ_COMMITTED_ONLY = {"cleanup", "commit_write", "purge_queue", "redrive"}
"""They raise 25001 above READ COMMITTED, and nothing else does."""

TRUNCATED = {"consume", "poll", "get_job"}
"""They may raise 40001 under READ COMMITTED too, when cleanup removes or moves what they read."""


@cache
def documented() -> frozenset[str]:
    """The codes of the table in sql/README.md, and a deadlock's."""
    text = (ROOT / "sql" / "README.md").read_text()
    return frozenset(_CODE.findall(text)) | {"40P01"}


def check_errors(history: History) -> None:
    """Every error is a documented one, and what is to be tried again succeeds alone."""
    for transaction in history.transactions:
        for event in transaction.events:
            if event.answer is not None and event.answer.code is not None:
                told = f"{event.statement} at {transaction.level or 'autocommit'}: {event.answer}"
                kind = _wrong(event)
                if kind is not None:
                    history.violate(kind, told)


def _wrong(event: Event) -> str | None:
    assert event.answer is not None
    code = event.answer.code
    transaction = event.transaction
    if code == "57014":
        return "endless"
    if code not in documented():
        return "raw error"
    if code == "25001":
        above = transaction.level in ("repeatable read", "serializable")
        return None if above and event.call in READ_COMMITTED_ONLY else "raw error"
    if code in RETRIED and (transaction.alone or transaction.session == HOUSE):
        return "cannot be repeated"
    if (
        code == "40001"
        and transaction.level in (None, "read committed")
        and event.call not in TRUNCATED
    ):
        return "raw error"
    return None
