"""Who may do what with topics and queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Access", "CreatedRole"]


@dataclass(frozen=True, slots=True)
class Access:
    """What a role may do with a topic or a queue."""

    role: str
    """The role; 'public': every role."""
    topic: str | None
    """The topic; '*': all topics; None: it is about a queue."""
    queue: str | None
    """The queue; '*': all queues; None: it is about a topic."""
    access: str
    """'publish', 'consume', 'monitor', or 'admin' for all of them and for settings."""
    granted_by: str
    granted_at: datetime


@dataclass(frozen=True, slots=True)
class CreatedRole:
    """A role that pgq uses."""

    role: str
    created: bool
    """False: it was there already."""
