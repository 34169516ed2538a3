"""What tests of the metrics share: the figures by their names and labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.session import Session

__all__ = ["Figures", "figures", "key_of"]

Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


def key_of(name: str, /, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """How a figure is found."""
    return name, frozenset(labels.items())


def figures(session: Session) -> Figures:
    """All figures; each is there once."""
    rows: Iterable[Any] = session.metrics()
    found = [(key_of(row.name, **row.labels), row.value) for row in rows]
    assert len({key for key, _ in found}) == len(found), "a figure comes twice"
    return dict(found)
