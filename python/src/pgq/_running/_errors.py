"""Errors as texts."""

from __future__ import annotations

__all__ = ["failure"]

LONGEST = 4000


def failure(error: BaseException) -> str:
    """The text of an error as the database can keep it."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    text = text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
