"""Subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Subscription"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A queue that gets a job for each message of a topic, or for some of them."""

    subscription: str
    topic: str | None
    """None for an admin of the queue who may not know the topic."""
    queue: str | None
    """None for an admin of the topic who may not know the queue."""
    filter: dict[str, list[Any]] | None
    """For names of headers the values that each may have; None: any message."""
    routing_key: str | None
    """The pattern that the header `routing_key` has to match; None: any message."""
    created_at: datetime
    made_by: str | None
    """The role whose access it needs; None: the owner of pgq."""
