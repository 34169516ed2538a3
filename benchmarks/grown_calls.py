"""What is called of pgq while something grows, and how databases are filled."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.growing import Line

__all__ = [
    "ACK",
    "ACK_LINE",
    "CLAIM_ANY",
    "CLAIM_LINE",
    "CLEANED",
    "CLEANUP",
    "CONSUMER",
    "CONSUME_NEWEST",
    "DOUBLINGS",
    "ENQUEUE_LINE",
    "GRANTS",
    "GROUPS",
    "GROUP_LINES",
    "JOBS",
    "JOB_LINES",
    "LEASES",
    "LEAVES",
    "MESSAGES",
    "MESSAGE_LINES",
    "PARTITION_LINES",
    "PUBLISH",
    "PUBLISH_LINE",
    "QUEUE",
    "QUEUES",
    "QUEUE_LINES",
    "READER",
    "RESTRICTED_LINES",
    "SUBSCRIPTIONS",
    "THOUSANDS",
    "TOPICS",
    "TOPIC_LINES",
    "per_object",
]

THOUSANDS = (1, 10, 100, 1000, 10_000)
DOUBLINGS = (1, 2, 4, 8, 16, 32, 64)

# ---------------------------------------------------------------- calls

PUBLISH = "select * from pgq.publish('t1', body => %(body)s)"
PUBLISH_ANY = "select * from pgq.publish('t' || %(any)s::int, body => %(body)s)"
ENQUEUE = "select * from pgq.enqueue('q1', body => %(body)s)"
ENQUEUE_ANY = "select * from pgq.enqueue('q' || %(any)s::int, body => %(body)s)"
CLAIM = "select * from pgq.claim_job('q1')"
CLAIM_ANY = "select * from pgq.claim_job('q' || %(any)s::int)"
ACK = "select pgq.ack(%(job_id)s::bigint, %(lease_token)s::uuid)"


def per_object(name: str, statement: str) -> Line:
    """A call that returns a row for each object, or more."""
    return Line(name=name, statement=f"select count(*) from {statement}", per="n", of="an object")


PUBLISH_LINE = Line(name="publish", statement=PUBLISH)
ENQUEUE_LINE = Line(name="enqueue", statement=ENQUEUE)
CLAIM_LINE = Line(name="claim", before=[ENQUEUE], statement=CLAIM, after=[ACK])
ACK_LINE = Line(name="ack", before=[ENQUEUE, CLAIM], statement=ACK)
CLEANUP = Line(name="cleanup", statement="select count(*) from pgq.cleanup()")
CONSUME_NEWEST = Line(
    name="consume 1, the newest",
    before=[PUBLISH],
    statement="select * from pgq.consume('t1', 'g1', 1)",
)

# ---------------------------------------------------------------- filling

TOPICS = """
select %(n)s - max(i) as left from generate_series(
    %(number)s * 100 + 1, least(%(number)s * 100 + 100, %(n)s)
) as i, pgq.create_topic('t' || i), pgq.create_group('t' || i, 'g1')
"""
QUEUES = """
select %(n)s - max(i) as left from generate_series(
    %(number)s * 100 + 1, least(%(number)s * 100 + 100, %(n)s)
) as i, pgq.create_queue('q' || i)
"""
GROUPS = """
select %(n)s - max(i) as left from generate_series(
    %(number)s * 100 + 1, least(%(number)s * 100 + 100, %(n)s)
) as i, pgq.create_group('t1', 'g' || i)
"""
SUBSCRIPTIONS = """
select count(*) from generate_series(1, %(n)s) as i, pgq.subscribe('s' || i, 't1', 'q' || i)
"""
MESSAGES = """
select %(n)s - (%(number)s + 1) * least(10000, %(n)s / 8) as left from pgq.publish_batch(
    't1',
    partition => %(number)s %% 8,
    bodies => array_fill(%(body)s::bytea, array[least(10000, %(n)s / 8)])
)
limit 1
"""
JOBS = """
select %(n)s - (%(number)s + 1) * 1000 as left from pgq.enqueue_batch(
    'q1',
    delay => %(delay)s::interval,
    bodies => array_fill(%(body)s::bytea, array[least(1000, %(n)s - %(number)s * 1000)])
)
limit 1
"""
LEASES = """
select %(n)s - (%(number)s + 1) * 1000 as left from (
    select count(*) from pgq.claim_job('q1', 1000, lease => '10 days')
) as c
"""

# ---------------------------------------------------------------- objects

TOPIC_LINES = [
    Line(name="publish", statement=PUBLISH_ANY),
    Line(
        name="consume 1",
        before=[PUBLISH_ANY],
        statement="select * from pgq.consume('t' || %(any)s::int, 'g1', 1)",
    ),
    Line(
        name="create_topic",
        statement="select * from pgq.create_topic('new' || %(unique)s::bigint)",
        after=["select pgq.drop_topic('new' || %(unique)s::bigint)"],
    ),
    per_object("cleanup", "pgq.cleanup()"),
    Line(
        name="topic_stats of one",
        statement="select * from pgq.topic_stats where topic = 't' || %(any)s::int",
    ),
    per_object("list_topics", "pgq.list_topics()"),
    per_object("list_groups", "pgq.list_groups()"),
    per_object("topic_stats", "pgq.topic_stats"),
    per_object("group_lag", "pgq.group_lag"),
    per_object("metrics", "pgq.metrics()"),
]
QUEUE_LINES = [
    Line(name="enqueue", statement=ENQUEUE_ANY),
    Line(name="claim", before=[ENQUEUE_ANY], statement=CLAIM_ANY, after=[ACK]),
    Line(name="claim of an empty queue", statement="select * from pgq.claim_job('empty')"),
    Line(
        name="create_queue",
        statement="select * from pgq.create_queue('new' || %(unique)s::bigint)",
        after=["select pgq.drop_queue('new' || %(unique)s::bigint)"],
    ),
    per_object("cleanup", "pgq.cleanup()"),
    Line(
        name="queue_stats of one",
        statement="select * from pgq.queue_stats where queue = 'q' || %(any)s::int",
    ),
    per_object("list_queues", "pgq.list_queues()"),
    per_object("queue_stats", "pgq.queue_stats"),
    per_object("metrics", "pgq.metrics()"),
]
GROUP_LINES = [
    PUBLISH_LINE,
    Line(
        name="consume 1",
        before=[PUBLISH],
        statement="select * from pgq.consume('t1', 'g' || %(any)s::int, 1)",
    ),
    Line(
        name="create_group",
        statement="select * from pgq.create_group('t1', 'new' || %(unique)s::bigint)",
        after=["select pgq.drop_group('t1', 'new' || %(unique)s::bigint)"],
    ),
    per_object("cleanup", "pgq.cleanup()"),
    Line(
        name="group_lag of one",
        statement="select * from pgq.group_lag"
        " where topic = 't1' and consumer_group = 'g' || %(any)s::int",
    ),
    per_object("list_groups", "pgq.list_groups('t1')"),
    per_object("group_lag", "pgq.group_lag"),
    per_object("metrics", "pgq.metrics()"),
]
RESTRICTED_CALLS = {
    "list_topics": "pgq.list_topics()",
    "list_queues": "pgq.list_queues()",
    "list_groups": "pgq.list_groups()",
    "topic_stats": "pgq.topic_stats",
    "queue_stats": "pgq.queue_stats",
    "metrics": "pgq.metrics()",
}


def by_reader(line: Line) -> Line:
    """The same by a role that has a grant for each object."""
    return replace(
        line,
        name=f"{line.name}, by a role",
        before=[*line.before, "set role growth_reader"],
        after=["reset role", *line.after],
    )


RESTRICTED_LINES = [
    by_reader(Line(name="publish", statement=PUBLISH_ANY)),
    *(per_object(name, statement) for name, statement in RESTRICTED_CALLS.items()),
    *(by_reader(per_object(name, statement)) for name, statement in RESTRICTED_CALLS.items()),
]
READER = (
    "do $$ begin create role growth_reader; exception when duplicate_object then null; end $$",
    "grant usage on schema pgq to growth_reader",
    "grant execute on all functions in schema pgq to growth_reader",
    "grant select on pgq.topic_stats, pgq.queue_stats to growth_reader",
)
GRANTS = """
select %(n)s - max(i) as left from generate_series(
    %(number)s * 100 + 1, least(%(number)s * 100 + 100, %(n)s)
) as i,
    pgq.grant_access('growth_reader', 'publish', topic => 't' || i) as a,
    pgq.grant_access('growth_reader', 'publish', queue => 'q' || i) as b
"""

# ---------------------------------------------------------------- messages

MESSAGE_LINES = [
    PUBLISH_LINE,
    CONSUME_NEWEST,
    Line(
        name="consume 100, the oldest",
        before=["select * from pgq.seek('t1', 'oldest', start => 'earliest') limit 1"],
        statement="select count(*) from pgq.consume('t1', 'oldest', 100)",
    ),
    Line(
        name="fetch 100 anywhere",
        before=[
            "select partition, 1 + floor((last_offset - 100) * %(share)s)::bigint as first_offset"
            " from pgq.list_offsets('t1') where partition = 0",
        ],
        statement="select count(*) from pgq.fetch_range("
        "'t1', 0, %(first_offset)s::bigint, %(first_offset)s::bigint + 99)",
    ),
    Line(
        name="create_group",
        statement="select * from pgq.create_group('t1', 'g' || %(unique)s::bigint, 'latest')",
        after=["select pgq.drop_group('t1', 'g' || %(unique)s::bigint)"],
    ),
    Line(
        name="seek to a time",
        before=[
            "select min(published_at) as lowest from pgq.fetch_range('t1', 0, 1, 1)",
        ],
        statement="select count(*) from pgq.seek('t1', 'oldest', published_at =>"
        " %(lowest)s::timestamptz + %(share)s * (now() - %(lowest)s::timestamptz))",
    ),
    Line(name="group_lag", statement="select * from pgq.group_lag"),
    Line(name="topic_stats", statement="select * from pgq.topic_stats"),
    Line(name="metrics", statement="select count(*) from pgq.metrics()"),
    CLEANUP,
]

# ---------------------------------------------------------------- jobs

JOB_LINES = [
    ENQUEUE_LINE,
    CLAIM_LINE,
    ACK_LINE,
    Line(name="peek_jobs", statement="select * from pgq.peek_jobs('q1', max_jobs => 10)"),
    Line(name="metrics", statement="select count(*) from pgq.metrics()"),
    Line(name="queue_stats, for a job", statement="select * from pgq.queue_stats", per="n"),
]
CLEANED = Line(
    name="cleanup, for an expired job",
    statement="select greatest(sum(amount) filter (where action = 'jobs expired'), 1)::float8"
    " as amount from pgq.cleanup()",
    per="amount",
)


QUEUE = "select pgq.create_queue('q1')"

# ---------------------------------------------------------------- leaves, fan-out, payloads

LEAVES = """
select count(*) from generate_series(1, %(n)s) as i,
    pgq.create_topic('t' || i, retention => make_interval(days => 10 + i)),
    pgq.create_group('t' || i, 'g1'),
    pgq.create_queue('q' || i, retention => make_interval(days => 10 + i))
"""
PARTITION_LINES = [
    PUBLISH_LINE,
    Line(
        name="publish with a key",
        statement="select * from pgq.publish('t1', body => %(body)s, key => %(unique)s::text)",
    ),
    CONSUME_NEWEST,
    Line(
        name="claim_offsets",
        before=[PUBLISH],
        statement="select * from pgq.claim_offsets('t1', 'g1', 1)",
    ),
    Line(
        name="consume 1, with max_attempts",
        before=[PUBLISH],
        statement="select * from pgq.consume('t1', 'limited', 1)",
    ),
    Line(name="consume, nothing new", statement="select * from pgq.consume('t1', 'empty')"),
    Line(
        name="publish, deferred",
        statement="select * from pgq.publish('later', body => %(body)s)",
    ),
    Line(
        name="assign_offsets",
        before=["select * from pgq.publish('later', body => %(body)s)"],
        statement="select * from pgq.assign_offsets('later')",
    ),
    Line(
        name="create_group",
        statement="select * from pgq.create_group('t1', 'g' || %(unique)s::bigint)",
        after=["select pgq.drop_group('t1', 'g' || %(unique)s::bigint)"],
        per="n",
        of="a partition",
    ),
]
CONSUMER = Line(
    name="consume 1, by one of them",
    before=[PUBLISH],
    statement="select * from pgq.consume('t1', 'g' || %(any)s::int, 1)",
)
