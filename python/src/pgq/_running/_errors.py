"""Errors as texts that the database can keep."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["failure", "plain"]

LONGEST = 4000

T = TypeVar("T", str, str | None)


def failure(error: BaseException) -> str:
    """The name of an error, and what it says."""
    return plain(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def plain(text: T) -> T:
    """A text without what the database cannot have in one."""
    if text is None:
        return text
    text = text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
