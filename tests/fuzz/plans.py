"""Plans: calls that follow each other, each near one that succeeds or far from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from hypothesis import strategies as st
from psycopg import sql

from fuzz.catalog import Catalog, Function
from fuzz.values import LIMITS, NULL, Drawn, argument, literal
from support.calls import GIVEN

__all__ = ["Call", "Plan", "Plans"]

LEVELS = ["read committed"] * 6 + ["repeatable read", "serializable"]

AHEAD = {
    "1 second": 1,
    "2 minutes": 120,
    "2 hours": 7200,
    "2 days": 172_800,
    "400 days": 34_560_000,
}
"""By how much the clock may go on between two calls, in seconds."""

EITHER = [
    {"payload", "body"},
    {"payloads", "bodies"},
    {"packed_payloads", "packed_bodies"},
    {"topic", "queue"},
    {"cron", "every"},
]
"""Of these a call takes one; the other is mostly taken away when one is drawn."""

TOPICS = tuple(map(literal, ("t", "late", "many", "new", "nowhere")))
QUEUES = tuple(map(literal, ("q", "followers", "ordered", "limited", "new", "nowhere")))

_LEASED = "(select {}(j.job_id) from pgq.job as j where j.lease_token is not null)"
_ANY = "(select {}(j.job_id) from pgq.{} as j)"
_OF_MANY = "array(select j.job_id from pgq.{} as j{} order by 1)"

# By the name of an argument what the database knows. A new name may do without.
KNOWN: dict[str, tuple[str, ...]] = {
    "topic": TOPICS,
    "queue": QUEUES,
    "dead_letter_topic": TOPICS,
    "consumer_group": tuple(map(literal, ("g", "leased", "new", "nobody"))),
    "schedule": tuple(map(literal, ("s", "new"))),
    "subscription": tuple(map(literal, ("b", "new"))),
    "worker": tuple(map(literal, ("w", "new"))),
    "effect": tuple(map(literal, ("e", "new"))),
    "role": tuple(map(literal, ("public", "pgq_fuzz_guest", "nobody at all"))),
    "producer": tuple(map(literal, ("p", "new"))),
    "cron": tuple(map(literal, ("* * * * *", "0 2 29 2 *", "@hourly", "0 0 31 2 *"))),
    "time_zone": tuple(map(literal, ("UTC", "Europe/Berlin", "PST8PDT", "posixrules"))),
    "no_limit": tuple(
        f"'{{{names}}}'"
        for names in ("retention", "max_attempts", "max_leased,rate_limit", "job_ttl,job_ttl")
    ),
    "job_id": (
        _LEASED.format("min"),
        _LEASED.format("max"),
        _ANY.format("max", "job"),
        _ANY.format("min", "dead_job"),
        _ANY.format("min", "job_archive"),
    ),
    "job_ids": (
        _OF_MANY.format("job", " where j.lease_token is not null"),
        _OF_MANY.format("job", ""),
        _OF_MANY.format("dead_job", ""),
    ),
    "lease_token": (
        f"(select k.lease_token from pgq.job as k where k.job_id = {_LEASED.format('min')})",
        f"(select k.lease_token from pgq.job as k where k.job_id = {_LEASED.format('max')})",
        "(select p.lease_token from pgq.group_position as p"
        " where p.lease_token is not null order by p.seq desc limit 1)",
    ),
    "write_id": tuple(
        f"(select w.write_id from pgq.bulk_write as w where w.{target} is not null{which}"
        " order by w.bulk_write_id desc limit 1)"
        for target in ("topic_id", "queue_id")
        for which in ("", " and w.committed_at is null")
    ),
    "partition": ("0", "1", "2"),
    "seq": ("1", "2"),
    "chunk": ("0", "1"),
    "task": ("0", "1"),
    "first_offset": ("1", "150", "151"),
    "last_offset": ("1", "150", "151"),
    "committed_offset": ("1", "150", "151"),
    "log_offset": ("1", "150", "151"),
    "first_partition_id": ("(select min(p.partition_id) from pgq.partition as p)",),
    "payload": ("'1'", "'{\"a\": 1}'"),
    "payloads": ("'{1,2}'",),
    "headers": ('\'{"a": "b"}\'',),
    "lengths": ("'{1,1}'", "'{0,2}'", "'{2}'"),
    "starts": ("'{0,1}'", "'{1,0}'", "'{0}'"),
    "lease": ("'1 minute'",),
    "max_messages": ("10", "1000"),
    "max_jobs": ("2", "100"),
}

# What prepare() calls by names that begin with $.
REFERENCES = {
    "$job": KNOWN["job_id"][0],
    "$jobs": KNOWN["job_ids"][0],
    "$job_token": KNOWN["lease_token"][0],
    "$poll_token": KNOWN["lease_token"][2],
    "$write": KNOWN["write_id"][1],
}

# Arguments that belong together, beside those of GIVEN: where a call gets interesting.
TOGETHER: dict[str, list[dict[str, str]]] = {
    "write_chunk": [
        {"packed_bodies": "'\\x3132'", "starts": "'{0,1}'"},
        {"write_id": KNOWN["write_id"][3], "packed_payloads": "'\\x3132'"},
    ],
    "begin_write": [{"producer": "'p'", "seq": "1"}, {"queue": "'q'"}],
    "create_queue": [{"ordered": "true"}, {"rate_limit": "2", "rate_interval": "'1 minute'"}],
    "create_topic": [{"deferred": "true"}, {"partitions": "3"}],
    "create_group": [{"max_attempts": "2", "dead_letter_topic": "'many'"}],
    "enqueue": [{"queue": "'ordered'", "key": "'k'", "unique_key": "'u'"}],
    "finish_and_claim": [{"job_ids": KNOWN["job_ids"][0], "lease_token": KNOWN["lease_token"][0]}],
    "subscribe": [{"filter": '\'{"a": "b"}\'', "routing_key": "'a.#'"}],
    "seek": [{"partition": "0", "log_offset": "3", "start": "null"}],
    "publish": [{"topic": "'late'", "key": "'k'"}],
}


@dataclass(frozen=True)
class Call:
    """One call, or the clock that goes on by some seconds."""

    function: str
    arguments: tuple[tuple[str, str, Drawn], ...] = ()
    """Names, types and values."""
    seconds: int = 0

    def __str__(self) -> str:
        if not self.function:
            return (
                "select setval('public.clock_offset',"
                f" last_value + {self.seconds} * 1000000::bigint) from public.clock_offset"
            )
        given = ", ".join(f"{name} => {value.sql}::{kind}" for name, kind, value in self.arguments)
        return f"select * from pgq.{self.function}({given})"

    def without(self, name: str) -> Call:
        """The same call without an argument."""
        return replace(self, arguments=tuple(a for a in self.arguments if a[0] != name))

    @property
    def values(self) -> str:
        """A statement that asks for the arguments alone."""
        given = ", ".join(f"{value.sql}::{kind}" for _, kind, value in self.arguments)
        return f"select {given}"


@dataclass(frozen=True)
class Plan:
    """Calls on a database that was made anew; committed each, or rolled back all in the end."""

    calls: tuple[Call, ...]
    level: str
    committed: bool
    guest: bool
    looked_at: bool
    """Whether all that there is is looked at in the end."""

    def __str__(self) -> str:
        """As a script for psql."""
        lines = []
        if self.guest:
            lines.append("set role pgq_fuzz_guest")
        if self.committed:
            if self.level != "read committed":
                lines.append(f"set default_transaction_isolation = '{self.level}'")
            lines += map(str, self.calls)
        else:
            lines += [f"begin isolation level {self.level}", "\\set ON_ERROR_ROLLBACK on"]
            lines += map(str, self.calls)
        return "\n".join(line if line.startswith("\\") else f"{line};" for line in lines)


class Plans:
    """Strategies for the functions of a catalog."""

    def __init__(self, catalog: Catalog, connection: psycopg.Connection[Any]) -> None:
        self.catalog = catalog
        self._bases = {
            name: [*self._given(function, connection)] for name, function in catalog.items()
        }
        self._drawn = {
            (name, place): argument(function, place, KNOWN)()
            for name, function in catalog.items()
            for place in function.types
        }
        self._calls = {name: self._call(function) for name, function in catalog.items()}

    def of(self, name: str, most: int, committed: int) -> st.SearchStrategy[Plan]:
        """Plans that end with a call of this function, behind up to so many of any.

        One of ``committed`` is committed call by call.
        """
        any_call = st.sampled_from([*self._calls]).flatmap(self._calls.__getitem__)
        ahead = st.sampled_from([Call("", seconds=seconds) for seconds in AHEAD.values()])
        before = st.lists(st.one_of([any_call] * 12 + [ahead]), max_size=most - 1)
        return st.builds(
            Plan,
            st.tuples(before, self._calls[name]).map(lambda drawn: (*drawn[0], drawn[1])),
            st.sampled_from(LEVELS),
            st.sampled_from([False] * max(committed - 1, 1) + [True] * (committed > 0)),
            st.sampled_from([False] * 9 + [True]),
            st.sampled_from([False] * 5 + [True]),
        )

    def _call(self, function: Function) -> st.SearchStrategy[Call]:
        @st.composite
        def drawn(draw: Any) -> Call:
            arguments = dict(draw(st.sampled_from(self._bases[function.name])))
            names = list(function.types)
            if names:
                how = draw(st.sampled_from(["near"] * 6 + ["limits"] * 2 + ["usual", "far", "few"]))
                limited = [name for name in names if function.types[name] in LIMITS]
                if how == "limits" and limited:
                    chosen = draw(
                        st.lists(st.sampled_from(limited), unique=True, min_size=1, max_size=2)
                    )
                    for name in chosen:
                        arguments[name] = draw(st.sampled_from(LIMITS[function.types[name]]))
                    chosen = []
                elif how == "far":
                    chosen, arguments = names, {}
                elif how == "few":
                    chosen = draw(st.lists(st.sampled_from(names), unique=True))
                    chosen += sorted(function.required - {*chosen})
                    arguments = {}
                else:
                    most = 3 if how == "near" else 0
                    chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=most))
                for name in chosen:
                    if how != "far" and draw(st.integers(0, 5)):
                        _take_away(arguments, function, name)
                    arguments[name] = draw(self._drawn[function.name, name])
            return Call(
                function.name,
                tuple((name, function.types[name], value) for name, value in arguments.items()),
            )

        return drawn()

    def _given(
        self, function: Function, connection: psycopg.Connection[Any]
    ) -> Iterable[dict[str, Drawn]]:
        """What calls start from."""
        base = {}
        for name, value in GIVEN.get(function.name, {}).items():
            known = REFERENCES.get(value) if isinstance(value, str) else None
            base[name] = Drawn(known or sql.Literal(value).as_string(connection))
        for name in function.required - base.keys():
            base[name] = Drawn(KNOWN[name][0]) if name in KNOWN else NULL
        yield base
        for more in TOGETHER.get(function.name, []):
            other = dict(base)
            for name in more:
                _take_away(other, function, name)
            yield {**other, **{name: Drawn(value) for name, value in more.items()}}


def _take_away(arguments: dict[str, Drawn], function: Function, name: str) -> None:
    for pair in EITHER:
        if name in pair:
            for other in pair - function.required - {name}:
                arguments.pop(other, None)
