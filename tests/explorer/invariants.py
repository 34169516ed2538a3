"""Everything that is checked when a trial has ended."""

from __future__ import annotations

from explorer.check_access import check_access
from explorer.check_deferred import check_deferred, settle_deferred
from explorer.check_due import check_due
from explorer.check_effects import check_effects
from explorer.check_endings import check_endings
from explorer.check_followers import check_followers
from explorer.check_groups import check_groups
from explorer.check_key_limits import check_rooms
from explorer.check_keys import check_keys
from explorer.check_leases import check_leases
from explorer.check_limits import check_limits
from explorer.check_log import check_topics
from explorer.check_newest import check_newest
from explorer.check_noted import check_noted
from explorer.check_order import check_keys_of_order
from explorer.check_poison import check_poison
from explorer.check_queue import check_queues
from explorer.check_readers import check_readers
from explorer.check_ticks import check_ticks
from explorer.check_waits import check_waits
from explorer.check_workers import check_workers
from explorer.database import Link
from explorer.errors import check_errors
from explorer.history import History
from explorer.settings import check_settings
from explorer.writes import check_writes
from stored_state import wrong_state

__all__ = ["check"]

AHEAD = 7200
"""Seconds by which the clock is set ahead at the end."""


def check(history: History, link: Link) -> None:
    """Note in the history every promise that was broken."""
    check_errors(history)
    check_settings(history, link)
    check_writes(history)
    check_access(history)
    check_workers(history, link)
    check_leases(history)
    check_effects(history, link)
    check_keys(history)
    check_endings(history, link)
    check_waits(history, link)
    check_noted(history, link)
    check_due(history, link)
    check_keys_of_order(history, link)
    check_limits(history, link)
    check_rooms(history, link)
    for told in wrong_state(link.rows):
        history.violate("wrong state", told)
    deferred = settle_deferred(link)
    topics = check_topics(history, link)
    for topic in topics:
        if topic.name in deferred:
            check_deferred(topic)
    check_readers(topics, history, deferred)
    # late enough for every lease and every delay, too early for most retentions
    ahead = history.clock(0, history.tick)[1] + AHEAD
    link.set_clock(ahead)
    check_groups(topics, history, link)
    check_queues(history, link, ahead)
    check_ticks(history, link)
    check_poison(history, link)
    check_newest(history, link)
    check_followers(history, link, topics)
