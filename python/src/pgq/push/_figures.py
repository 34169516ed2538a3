"""Counters, for whoever wants to show them."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Figures", "NoFigures"]


class Figures(Protocol):
    """Where the push worker counts; the names are those of Prometheus.

    ======================================  =====================================================
    pgq_push_requests_total                 labels push, outcome: accepted, refused (another
                                            status), failed (no answer)
    pgq_push_messages_total                 label push: those that were accepted
    pgq_push_leases_lost_total              label push
    pgq_push_request_seconds                label push; observed for each request
    ======================================  =====================================================
    """

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter."""

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Note a value, for a histogram."""


class NoFigures:
    """Counts nothing."""

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Nothing."""

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Nothing."""
