"""The group `admin`: what is set up once, and upkeep."""

from __future__ import annotations

from pgq._async._access import AccessRights
from pgq._async._cleanup import Cleanup
from pgq._async._queues import Queues
from pgq._async._subscriptions import Subscriptions
from pgq._async._topics import Topics

__all__ = ["Admin"]


class Admin(Topics, Queues, Subscriptions, AccessRights, Cleanup):
    """Topics, groups, queues and subscriptions with their settings, access, and cleanup."""
