"""What a stranger gets by arguments and levels other than the usual ones: each takes its own way
through a function."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from addons.access.conftest import LEVELS, acting, role_of
from addons.access.test_every_function import NEEDS, in_place, learns_nothing, outcome
from support.calls import Arguments, given
from support.session import Session, unchanged

ISOLATION = ("read committed", "repeatable read", "serializable")

# A value for each argument that may be left out; arrays are as long as those of the usual calls.
VALUES: dict[str, Any] = {
    "after_dead_letter": "stop",
    "after_died_at": "2029-12-31 23:00+00",
    "after_job_id": 1,
    "all_jobs": True,
    "archive": True,
    "atomic": False,
    "backoff": "1 minute",
    "backoff_jitter": 0,
    "backoff_max": "1 hour",
    "bodies": [b"1", b"2"],
    "body": b"1",
    "committed_offset": 1,
    "digest": "d",
    "first_partition_id": 1,
    "consumer_group": "g",
    "cron": "@daily",
    "dead_letter_topic": "t",
    "dead_only": True,
    "deferred": True,
    "delay": "1 minute",
    "died_before": "2031-01-01 00:00+00",
    "end_dependents": True,
    "error": "e",
    "every": "1 hour",
    "expected_messages": 0,
    "filter": Jsonb({"a": 1}),
    "headers": Jsonb({"a": 1}),
    "idempotency_key": "i",
    "idempotency_keys": ["i", "j"],
    "idempotency_window": "1 hour",
    "job_ids": [1, 2],
    "job_ttl": "1 hour",
    "keep_results": True,
    "key": "k",
    "keys": ["k", "l"],
    "label": "l",
    "labels": ["l", "m"],
    "last_chunk": True,
    "lease": "1 minute",
    "lease_token": "00000000-0000-4000-8000-000000000000",
    "log_offset": 1,
    "max_attempts": 3,
    "max_bytes": 10000,
    "max_jobs": 2,
    "max_leased": 2,
    "max_leased_per_key": 2,
    "max_message_bytes": 5000,
    "max_messages": 2,
    "max_unfinished": 9,
    "missed": "one",
    "no_limit": ["retention"],
    "notify": True,
    "on_duplicate": "keep",
    "ordered": True,
    "out_of_range": "skip",
    "packed_bodies": b"12",
    "partition": 0,
    "partitions": 3,
    "per_second": 1.0,
    "prefetch": True,
    "priority": 1,
    "owner": "o",
    "producer": "p",
    "published_at": "2029-12-31 23:00+00",
    "rate_burst": 2,
    "rate_interval": "1 minute",
    "rate_limit": 2,
    "restricted": False,
    "retention": "1 hour",
    "routing_key": "r",
    "run_at": "2030-01-01 00:00+00",
    "seq": 1,
    "start": "earliest",
    "starts": [0, 1],
    "starts_at": "2030-01-01 00:00+00",
    "state": "ready",
    "time_zone": "UTC",
    "timeout": "1 hour",
    "unique_key": "u",
    "unique_keys": ["u", "v"],
    "unique_until": "finished",
    "after_id": 1,
    "debounce_max": "1 hour",
    "died_since": "2029-12-31 23:00+00",
    "dry_run": True,
    "due_before": "2031-01-01 00:00+00",
    "due_since": "2029-12-31 23:00+00",
    "error_contains": "e",
    "leased": True,
    "worker": "w",
    "began_at": "2030-01-01 00:00+00",
}
# Of which one only may be given.
EITHER = (
    {"payload", "body"},
    {"payloads", "bodies"},
    {"packed_payloads", "packed_bodies"},
    {"topic", "queue"},
)


def optional(session: Session, function: str) -> list[str]:
    """The arguments that may be given besides the usual ones."""
    [(names,)] = session.execute(
        "select proargnames[1:pronargs] from pg_proc"
        " where pronamespace = 'pgq'::regnamespace and proname = %s",
        [function],
    ).fetchall()
    return [name for name in names if name in VALUES]


def variants(session: Session, function: str, known: Arguments) -> Iterator[Arguments]:
    """The usual call with one and with two other arguments."""
    usual = given(function, known)
    names = [name for name in optional(session, function) if name not in usual]
    for number in (1, 2):
        for chosen in itertools.combinations(names, number):
            arguments = dict(usual)
            for name in chosen:
                for other in EITHER:
                    if name in other:
                        for replaced in other:
                            arguments.pop(replaced, None)
                arguments[name] = VALUES[name]
                if name == "headers" and "payloads" in usual:
                    arguments[name] = [VALUES[name], VALUES[name]]
            yield arguments


@pytest.mark.parametrize("level", ISOLATION)
@pytest.mark.parametrize("function", NEEDS)
def test_other_ways_through_a_function(
    function: str, level: str, roles: Session, known: Arguments
) -> None:
    """None of them lets a stranger in, or tells him whether the name is there."""
    with unchanged(roles):
        roles.execute(f"set default_transaction_isolation = '{level}'")
        try:
            for hidden in (given(function, known), *variants(roles, function, known)):
                absent = in_place(hidden)
                if function == "subscribe":
                    absent["subscription"] = hidden["subscription"]
                learns_nothing(roles, function, hidden, absent)
        finally:
            roles.execute("reset default_transaction_isolation")


@pytest.mark.parametrize("level", ISOLATION)
@pytest.mark.parametrize("kind", ["topic", "late", "q"])
def test_other_ways_to_publish(kind: str, level: str, roles: Session, known: Arguments) -> None:
    """Whoever has another access than this one is told so, also for deferred topics."""
    with roles.transaction(force_rollback=True):
        roles.execute(f"set transaction isolation level {level}")
        roles.create_topic(topic="late", partitions=2, deferred=True)
        for access in LEVELS:
            roles.grant_access(role=role_of(access), access=access, topic="late")
        functions = ("enqueue", "enqueue_batch") if kind == "q" else ("publish", "publish_batch")
        for function in functions:
            for arguments in (given(function, known), *variants(roles, function, known)):
                if kind == "late":
                    arguments["topic"] = "late"
                for access in ("consume", "monitor"):
                    with pytest.raises(psycopg.Error) as caught, acting(roles, role_of(access)):
                        roles.call(function, **arguments)
                    assert caught.value.sqlstate in ("42501", "22023"), (arguments, caught.value)
                answer = outcome(roles, role_of("publish"), function, arguments)
                if isinstance(answer, psycopg.Error):
                    # a bad mixture of arguments
                    assert answer.sqlstate == "22023", arguments


def test_all_arguments_are_known(roles: Session) -> None:
    """Each argument that may be left out has a value here, or is named by the usual calls."""
    found = roles.execute(
        "select distinct n from pg_proc as p, unnest(p.proargnames[1:p.pronargs]) as n"
        " where p.pronamespace = 'pgq'::regnamespace and p.proname = any(%s)",
        [[*NEEDS]],
    ).fetchall()
    usual = {name for function in NEEDS for name in given(function, {})}
    assert sorted({name for (name,) in found} - VALUES.keys() - usual) == []
