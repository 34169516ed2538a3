"""The parts: what grows, by which steps, and which calls are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.growing import Calls, Line, Part
from benchmarks.grown_calls import (
    ACK,
    ACK_LINE,
    CLAIM_ANY,
    CLAIM_LINE,
    CLEANED,
    CLEANUP,
    CONSUME_NEWEST,
    CONSUMER,
    DOUBLINGS,
    ENQUEUE_LINE,
    GRANTS,
    GROUP_LINES,
    GROUPS,
    JOB_LINES,
    JOBS,
    LEASES,
    LEAVES,
    MESSAGE_LINES,
    MESSAGES,
    PARTITION_LINES,
    PUBLISH,
    PUBLISH_LINE,
    QUEUE,
    QUEUE_LINES,
    QUEUES,
    READER,
    RESTRICTED_LINES,
    SUBSCRIPTIONS,
    THOUSANDS,
    TOPIC_LINES,
    TOPICS,
    per_object,
)

__all__ = ["PARTS"]


def jobs(name: str, title: str, builds: Sequence[str], delay: str = "0") -> Calls:
    """A queue full of jobs in one state."""
    expired = name == "expired"
    return Calls(
        name=name,
        title=title,
        axis="jobs",
        picture="jobs",
        steps=(1000, 10_000, 100_000, 1_000_000),
        builds=builds,
        lines=JOB_LINES if expired else [*JOB_LINES, CLEANUP],
        last=[CLEANED] if expired else (),
        values={"delay": delay},
    )


PARTS: Sequence[Part] = (
    Calls(
        name="topics",
        title="Topics of 8 partitions, each with a group",
        axis="topics",
        picture="objects",
        steps=THOUSANDS,
        builds=[TOPICS],
        lines=TOPIC_LINES,
    ),
    Calls(
        name="queues",
        title="Queues",
        axis="queues",
        picture="objects",
        steps=THOUSANDS,
        builds=[QUEUES, "select pgq.create_queue('empty')"],
        lines=QUEUE_LINES,
    ),
    Calls(
        name="groups",
        title="Groups of one topic with 8 partitions",
        axis="groups",
        picture="objects",
        steps=THOUSANDS,
        builds=["select pgq.create_topic('t1')", GROUPS],
        lines=GROUP_LINES,
    ),
    Calls(
        name="restricted",
        title="Topics and queues that are restricted",
        axis="topics, and queues",
        picture="objects",
        steps=THOUSANDS,
        builds=[
            TOPICS.replace("create_topic('t' || i)", "create_topic('t' || i, restricted => true)"),
            QUEUES.replace("create_queue('q' || i)", "create_queue('q' || i, restricted => true)"),
            *READER,
            GRANTS,
        ],
        lines=RESTRICTED_LINES,
    ),
    jobs("waiting", "Jobs that wait", [QUEUE, JOBS]),
    jobs("delayed", "Jobs that are delayed", [QUEUE, JOBS], delay="10 days"),
    jobs("leased", "Jobs that are leased", [QUEUE, JOBS, LEASES]),
    jobs(
        "expired",
        "Jobs that have expired",
        [
            "select pgq.create_queue('q1', job_ttl => '1 millisecond')",
            JOBS,
            "select pgq.alter_queue('q1', job_ttl => '10 days')",
        ],
    ),
    Calls(
        name="messages",
        title="Messages in a topic of 8 partitions",
        axis="messages",
        picture="messages",
        steps=(1000, 10_000, 100_000, 1_000_000, 10_000_000),
        full=(50_000_000,),
        builds=[
            "select pgq.create_topic('t1')",
            MESSAGES,
            "select pgq.create_group('t1', 'g1', 'latest'), pgq.create_group('t1', 'oldest')",
        ],
        lines=MESSAGE_LINES,
    ),
    Calls(
        name="payloads",
        title="Bytes of a message or job",
        axis="bytes",
        picture="payloads",
        steps=(10, 100, 1000, 10_000, 100_000, 1_000_000),
        builds=[
            "select pgq.create_topic('t1')",
            "select pgq.create_group('t1', 'g1', 'latest')",
            QUEUE,
        ],
        lines=[
            replace(line, per="kilobytes", of="a kilobyte")
            for line in (PUBLISH_LINE, CONSUME_NEWEST, ENQUEUE_LINE, CLAIM_LINE, ACK_LINE)
        ],
        body=None,
    ),
    Calls(
        name="partitions",
        title="Partitions of a topic",
        axis="partitions",
        picture="partitions",
        steps=(8, 16, 32, 64, 128, 256, 512, 1024),
        builds=[
            "select pgq.create_topic('t1', %(n)s), pgq.create_group('t1', 'g1'),"
            " pgq.create_group('t1', 'empty', 'latest'), pgq.create_topic('dead', 1),"
            " pgq.create_group('t1', 'limited', max_attempts => 3, dead_letter_topic => 'dead')",
            "select pgq.create_topic('later', %(n)s, deferred => true),"
            " pgq.create_group('later', 'g1')",
        ],
        lines=PARTITION_LINES,
    ),
    Calls(
        name="leaves",
        title="Leaves in use: topics and queues with retentions of their own",
        axis="leaves",
        picture="partitions",
        steps=(8, 16, 32, 64, 128, 256),
        builds=[LEAVES],
        lines=[
            *TOPIC_LINES[:2],
            *QUEUE_LINES[:2],
            per_object("cleanup", "pgq.cleanup()"),
        ],
    ),
    Calls(
        name="readers",
        title="Groups that read one topic",
        axis="groups",
        picture="fan-out",
        steps=DOUBLINGS,
        builds=["select pgq.create_topic('t1')", GROUPS],
        lines=[PUBLISH_LINE, CONSUMER],
    ),
    Calls(
        name="subscribers",
        title="Queues subscribed to one topic",
        axis="queues",
        picture="fan-out",
        steps=DOUBLINGS,
        builds=["select pgq.create_topic('t1')", QUEUES, SUBSCRIPTIONS],
        lines=[
            Line(name="publish 1", statement=PUBLISH, per="n", of="a job"),
            Line(
                name="publish 100",
                statement="select * from pgq.publish_batch('t1',"
                " bodies => array_fill(%(body)s::bytea, array[100]))",
                per="n",
                of="100 jobs",
            ),
            Line(name="claim", before=[PUBLISH], statement=CLAIM_ANY, after=[ACK]),
        ],
    ),
)
