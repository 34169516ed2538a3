"""The topics, queues, groups, schedules and subscriptions of a run of months."""

from __future__ import annotations

from typing import Any

import psycopg

__all__ = ["BRIEF", "CAPPED_BYTES", "READERS", "make", "warm_up"]

BRIEF = ("brief-1", "brief-2", "brief-3", "brief-4")
"""Topics whose messages are kept for less than a day, each in segments of its own."""

CAPPED_BYTES = 2_000_000

TOPICS = f"""
select pgq.create_topic('events', 4, '2 days', idempotency_window => '12 hours');
select pgq.create_topic('brief-1', 2, '20 hours');
select pgq.create_topic('brief-2', 2, '21 hours');
select pgq.create_topic('brief-3', 2, '22 hours');
select pgq.create_topic('brief-4', 2, '23 hours');
select pgq.create_topic('capped', 2, max_bytes => {CAPPED_BYTES}, no_limit => '{{retention}}');
select pgq.create_topic('later', 2, '1 day', deferred => true);
select pgq.create_topic('bulk', 2, '1 day');
"""

QUEUES = """
select pgq.create_queue('work', lease => '2 hours', max_attempts => 3, backoff => '30 minutes',
    backoff_max => '2 hours', retention => '1 day');
select pgq.create_queue('ordered', lease => '5 hours', ordered => true, retention => '1 day',
    no_limit => '{max_attempts}');
select pgq.create_queue('limited', lease => '5 hours', max_leased => 50, max_leased_per_key => 2,
    retention => '1 day', no_limit => '{max_attempts}');
select pgq.create_queue('followers', lease => '5 hours', retention => '1 day',
    no_limit => '{max_attempts}');
select pgq.create_queue('ticks', lease => '5 hours', retention => '1 day',
    no_limit => '{max_attempts}');
select pgq.create_queue('bulk-jobs', lease => '5 hours', retention => '1 day',
    no_limit => '{max_attempts}');
select pgq.subscribe('followers', 'events', 'followers', '{"kind": ["a"]}');
"""

# Ticks are counted: each of those with an interval has to be there once.
SCHEDULES = """
select pgq.create_schedule(name, queue => 'ticks', payload => to_jsonb(name), every => every,
    cron => cron, missed => 'all', starts_at => date_trunc('hour', pgq._clock()))
from (
    values
    ('hourly-1', interval '1 hour', null),
    ('hourly-2', interval '1 hour', null),
    ('hourly-3', interval '1 hour', null),
    ('quarterly', interval '15 minutes', null),
    ('cron', null, '5 */2 * * *')
) as schedules (name, every, cron);
"""

GROUPS = {
    "events": ("exact", "leased"),
    **dict.fromkeys(BRIEF, ("exact",)),
    "capped": ("exact",),
    "later": ("exact",),
    "bulk": ("exact",),
}

READERS = [f"{topic} by {group}" for topic, groups in GROUPS.items() for group in groups]

JOURNAL = 1100
"""A group keeps its last 1000 positions in each partition."""
REMEMBERED = 1000
"""As many bulk writes of a producer are remembered."""


def make(connection: psycopg.Connection[Any]) -> None:
    """Create all of it."""
    for script in (TOPICS, QUEUES, SCHEDULES):
        connection.execute(script.encode())
    for topic, groups in GROUPS.items():
        for group in groups:
            connection.execute("select pgq.create_group(%s, %s)", [topic, group])


def warm_up(connection: psycopg.Connection[Any]) -> int:
    """Fill what is kept by number and not by time; returns the next number of the producer.

    Journals of positions and the memory of bulk writes grow until they have a thousand rows. Where
    something is read once a second that takes longer than many a run.
    """
    connection.execute("set synchronous_commit = off")
    for topic, groups in GROUPS.items():
        for group in groups:
            connection.execute(
                "select count(*) from generate_series(1, %s) as n,"
                " pgq.seek(%s, %s, start => case when n > 0 then 'earliest' end)",
                [JOURNAL, topic, group],
            )
    for target in ("topic", "queue"):
        name = {"topic": "bulk", "queue": "bulk-jobs"}[target]
        for seq in range(1, REMEMBERED + 1):
            row = connection.execute(
                f"select write_id from pgq.begin_write({target} => %s, producer => 'loader',"
                " seq => %s)",
                [name, seq],
            ).fetchone()
            if row is not None:
                connection.execute("select pgq.commit_write(%s)", row)
    connection.execute("reset synchronous_commit")
    connection.execute("vacuum analyze")
    return REMEMBERED + 1
