"""The database of a fault run: its topics, groups, queues, and the tables of what has been done."""

from __future__ import annotations

from typing import Any

from fault_runs.consumers import TRANSACTIONAL
from fault_runs.streams import COPIED, COPIES
from support.clock import Clock
from support.house import install_script
from support.session import Session

__all__ = ["PARTS", "TOPICS", "install"]

TOPICS: dict[str, dict[str, Any]] = {
    "log": {"partitions": 3, "no_limit": ["retention"]},
    "brief": {"partitions": 2, "retention": "6 seconds"},
    "later": {"partitions": 2, "no_limit": ["retention"], "deferred": True},
    "once": {
        "partitions": 2,
        "no_limit": ["retention"],
        "idempotency_window": "300 days",
    },
    "bulk": {"partitions": 2, "no_limit": ["retention"]},
    "wide-given-up": {"partitions": 1, "no_limit": ["retention"]},
    "wide": {"partitions": 20, "no_limit": ["retention"]},
    **{copy: {"partitions": 3, "no_limit": ["retention"]} for copy in COPIES},
}

GROUPS: dict[str, dict[str, Any]] = {
    "brief": {"out_of_range": "skip"},
    # with attempts to count, members look at a few of many partitions first
    "wide": {"max_attempts": 1000, "dead_letter_topic": "wide-given-up"},
}
"""Settings of the groups of a topic."""

NEWEST = {"unique_until": "claimed", "no_limit": ["job_ttl", "max_attempts", "retention"]}

QUEUES: dict[str, dict[str, Any]] = {
    "jobs": {"max_attempts": 4, "no_limit": ["job_ttl", "retention"], "keep_results": True},
    "brief-jobs": {"retention": "6 seconds", "no_limit": ["job_ttl", "max_attempts"]},
    "bulk-jobs": {"no_limit": ["job_ttl", "max_attempts", "retention"]},
    "ordered": {
        "ordered": True,
        "keep_results": True,
        "no_limit": ["job_ttl", "max_attempts", "retention"],
    },
    "followers": {"no_limit": ["job_ttl", "max_attempts", "retention"]},
    "ticks": {"no_limit": ["job_ttl", "max_attempts", "retention"]},
    # each attempt that fails leaves a dead letter
    "swept": {"max_attempts": 1, "no_limit": ["job_ttl", "retention"], "keep_results": True},
    "replaced": {**NEWEST, "on_duplicate": "replace", "keep_results": True},
    "postponed": {**NEWEST, "on_duplicate": "postpone", "debounce_max": "1 second"},
}

PARTS = [
    *("jobs", "effects", "subscriptions", "workers", "writes", "dropped messages"),
    *("truncation", "positions", "windows", "offsets", "closing", "sealing"),
]
"""The parts of cleanup, in its order."""

# Places are given while the group's partition, or the job, is locked: so they are in the order of
# the commits.
TABLES = """
create table public.seen (
    place bigint generated always as identity,
    topic text not null,
    consumer_group text not null,
    partition integer not null,
    log_offset bigint not null,
    name text not null,
    primary key (topic, consumer_group, partition, log_offset)
);
create table public.done (
    place bigint generated always as identity,
    queue text not null,
    job_id bigint not null,
    name text not null,
    primary key (queue, job_id)
);
create sequence public.place;
create table public.attempt (
    place bigint not null default nextval('public.place'),
    queue text not null,
    job_id bigint not null,
    token uuid not null,
    attempt integer not null,
    name text,
    label text,
    age double precision not null
);
create index on public.attempt (job_id);
create table public.act (
    place bigint not null default nextval('public.place'),
    call text not null,
    wanted text not null,
    job_id bigint,
    met text
);
create table public.external_offset (partition integer primary key, following bigint not null);
insert into public.external_offset select n, 1 from generate_series(0, 2) as g (n);
"""

STOP = "    return next;\nexception"
STOPPING = """
    if part = current_setting('fault_run.stop_behind', true) then
        perform pg_sleep(600);
    end if;
"""


def install(dsn: str, spark: bool) -> Clock:
    """pgq with a clock that can be moved, and all that the clients need."""
    with Session.connect(dsn, autocommit=True) as session:
        session.execute(install_script())
        session.execute(TABLES.encode())
        _stop_cleanup(session)
        for topic, settings in TOPICS.items():
            session.create_topic(topic=topic, **settings)
            for group in TRANSACTIONAL.get(topic, []):
                if group != "external":
                    session.create_group(topic=topic, consumer_group=group, **GROUPS.get(topic, {}))
        for group in ("leased", "manual"):
            session.create_group(topic="log", consumer_group=group)
        for copy in COPIES if spark else ():
            for topic in COPIED:
                session.create_group(topic=topic, consumer_group=copy)
        for queue, settings in QUEUES.items():
            session.create_queue(queue=queue, backoff="0.1 seconds", **settings)
        session.subscribe(
            subscription="followers", topic="log", queue="followers", filter={"kind": ["a"]}
        )
    clock = Clock(dsn)
    clock.install()
    with Session.connect(dsn, autocommit=True) as session:
        [(begin,)] = session.execute("select date_trunc('second', now())").fetchall()
        session.create_schedule(
            schedule="ticks",
            queue="ticks",
            payload={},
            every="10 seconds",
            missed="all",
            starts_at=begin,
        )
    return clock


def _stop_cleanup(session: Session) -> None:
    """Have cleanup stop at the end of a part, where a session asks for it."""
    [(definition,)] = session.execute(
        "select pg_get_functiondef('pgq._try_part'::regproc)"
    ).fetchall()
    assert definition.count(STOP) == 1
    session.execute(definition.replace(STOP, STOPPING + STOP).encode())
