"""House rules for functions, as queries over the catalog of an installed database.

sqlfluff reads the body of a function as one string, so what matters there is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import psycopg
import psycopg.rows
import pytest

from support.house import refuse

_QUERY = """
select p.oid::regprocedure::text as signature,
    p.proname as name,
    p.prokind as kind,
    l.lanname as language,
    p.prosrc as source,
    p.provolatile as volatility,
    p.prosecdef as security_definer,
    p.proisstrict as strict,
    coalesce(p.proconfig, '{}') as config,
    coalesce(p.proargnames, '{}') as names,
    coalesce(p.proargmodes::text[], '{}') as modes,
    array(
        select format_type(type, null)
        from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality
            as t (type, at)
        order by at
    ) as types,
    p.pronargs as inputs,
    p.proretset as many,
    result.relkind as result_kind,
    pg_get_function_result(p.oid) as result,
    obj_description(p.oid, 'pg_proc') as comment,
    exists (
        select
        from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as x
        where x.grantee = 0
    ) as open_to_public
from pg_proc as p
join pg_language as l on l.oid = p.prolang
join pg_type as t on t.oid = p.prorettype
left join pg_class as result on result.oid = t.typrelid
where p.pronamespace = 'pgq'::regnamespace
"""


@dataclass(frozen=True)
class Function:
    """What the catalog knows of a function."""

    signature: str
    name: str
    kind: str
    language: str
    source: str
    volatility: str
    security_definer: bool
    strict: bool
    config: list[str]
    names: list[str]
    modes: list[str]
    types: list[str]
    inputs: int
    many: bool
    result_kind: str | None
    result: str
    comment: str | None
    open_to_public: bool

    @property
    def is_api(self) -> bool:
        return not self.name.startswith("_") and self.result != "trigger"


@pytest.fixture
def functions(connection: psycopg.Connection[Any]) -> list[Function]:
    with connection.cursor(row_factory=psycopg.rows.class_row(Function)) as cursor:
        found = cursor.execute(_QUERY).fetchall()
    assert len(found) > 40
    return found


def test_every_function_has_a_comment_whose_first_line_is_a_sentence(
    functions: list[Function],
) -> None:
    def broken() -> Iterator[str]:
        for function in functions:
            first = (function.comment or "").partition("\n")[0]
            if not (_is_sentence(first) if function.is_api else first):
                yield f"{function.signature}: {first!r}"

    refuse(broken())


def _is_sentence(line: str) -> bool:
    return re.fullmatch(r"[A-Z].{9,}[.]", line) is not None and not re.search(r"\w[.] [A-Z]", line)


def test_the_first_line_of_a_views_comment_is_a_sentence(
    connection: psycopg.Connection[Any],
) -> None:
    rows = connection.execute(
        """
        select c.relname, coalesce(split_part(obj_description(c.oid, 'pg_class'), E'\\n', 1), '')
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
        and c.relkind = 'v'
        """
    ).fetchall()
    assert rows
    refuse(f"{view}: {first!r}" for view, first in rows if not _is_sentence(first))


def test_comments_name_the_codes_that_a_function_raises_itself(functions: list[Function]) -> None:
    refuse(
        f"{function.signature} raises {code}"
        for function in functions
        if function.is_api
        for code in re.findall(r"errcode = '(\w+)'", function.source)
        if code not in (function.comment or "")
    )


def test_no_procedures(functions: list[Function]) -> None:
    # PostgREST cannot call them
    refuse(function.signature for function in functions if function.kind == "p")


def test_no_overloads(functions: list[Function]) -> None:
    # PostgREST chooses by argument names alone
    names = [function.name for function in functions]
    refuse(name for name in sorted(set(names)) if names.count(name) > 1)


def test_no_function_returns_rows_of_a_table(functions: list[Function]) -> None:
    refuse(
        function.signature
        for function in functions
        if function.result_kind is not None
        and function.result_kind not in "c"
        # a helper may hand a row to another
        and not function.signature.startswith("pgq._")
    )


def test_definer_functions_pin_their_search_path(functions: list[Function]) -> None:
    refuse(
        f"{function.signature}: {function.config}"
        for function in functions
        if function.security_definer and "search_path=pgq, pg_temp" not in function.config
    )


def test_nobody_may_call_anything_by_default(functions: list[Function]) -> None:
    # but for what the views call with the rights of whoever looks at them
    open_to_all = (
        "pgq._clock()",
        "pgq._partition_figures(",
        "pgq._visible_queues(",
        "pgq._visible_topics(",
    )
    refuse(
        function.signature
        for function in functions
        if function.open_to_public and not function.signature.startswith(open_to_all)
    )


def test_arguments_are_named_plainly(functions: list[Function]) -> None:
    def broken() -> Iterator[str]:
        for function in functions:
            if len(function.names) < function.inputs:
                yield f"{function.signature}: an argument without a name"
            for name in function.names:
                if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or re.match(r"(p|in|i|v|arg)_", name):
                    yield f"{function.signature}: {name}"

    refuse(broken())


_CONTENTS = {
    "payload": "payload",
    "payloads": "payload",
    "packed_payloads": "payload",
    "key": "key",
    "keys": "key",
    "headers": "headers",
    "body": "body",
    "bodies": "body",
    "packed_bodies": "body",
}


def test_arguments_come_in_one_order(functions: list[Function]) -> None:
    """Behind what is written to come payload, key, headers, then the rest, and a body last.

    Helpers need not have all of them, but the body is last there too.
    """

    def broken() -> Iterator[str]:
        for function in functions:
            names = function.names[: function.inputs]
            kinds = [_CONTENTS.get(name, "") for name in names]
            if "body" in kinds and kinds[-1] != "body":
                yield f"{function.signature}: {names}"
            if not (function.is_api and "payload" in kinds):
                continue
            start = kinds.index("payload")
            if kinds[start : start + 3] != ["payload", "key", "headers"] or kinds[-1] != "body":
                yield f"{function.signature}: {names}"

    written = [function.name for function in functions if {*function.names} & {*_CONTENTS}]
    assert {"publish", "publish_batch", "enqueue", "enqueue_batch", "write_chunk"} <= {*written}
    refuse(broken())


def test_two_arguments_come_in_the_same_order_everywhere(functions: list[Function]) -> None:
    """Whichever functions have both of them; keys count as key, job_ids as job_id, and so on.

    But for two that queues had long before jobs had both of their own.
    """

    def broken() -> Iterator[str]:
        seen: dict[tuple[str, str], str] = {}
        for function in functions:
            if not function.is_api:
                continue
            names = [
                _CONTENTS.get(name, name.removesuffix("s"))
                for name in function.names[: function.inputs]
            ]
            for first, second in combinations(names, 2):
                if {first, second} == {"delay", "max_attempt"}:
                    continue
                seen.setdefault((first, second), function.name)
                if (second, first) in seen:
                    other = seen[second, first]
                    yield f"{function.name} has {first} before {second}, {other} after it"

    refuse(broken())


HELD_NO_MORE = "the caller does not hold (it|them) any more"


def test_who_has_lost_a_lease_is_told_in_one_of_three_ways(functions: list[Function]) -> None:
    """False, an id that is left out, or MQ006; the first line of the comment says which."""

    def broken() -> Iterator[str]:
        for function in functions:
            if not (function.is_api and "lease_token" in function.names[: function.inputs]):
                continue
            first = (function.comment or "").partition("\n")[0]
            if function.name in ("begin_effect", "commit_offset", "finish_and_claim"):
                told = "; MQ006 w"
            elif function.result == "boolean":
                # What is extended must not have ended; else one that has run out still counts.
                extends = function.name.startswith("extend_")
                told = f"; false when {'that lease has ended' if extends else HELD_NO_MORE}[.]$"
            else:
                told = "returns the ids of"
            if not re.search(told, first):
                yield f"{function.signature}: {first!r} without {told!r}"

    refuse(broken())


def test_a_name_means_one_type_in_the_whole_api(functions: list[Function]) -> None:
    """But for what Prometheus calls labels: those of a figure are an object."""
    types: dict[str, set[str]] = {}
    for function in functions:
        if function.is_api:
            for name, type_name in zip(function.names, function.types, strict=True):
                if (function.name, name) != ("metrics", "labels"):
                    types.setdefault(name, set()).add(type_name.removesuffix("[]"))
    refuse(f"{name}: {sorted(found)}" for name, found in types.items() if len(found) > 1)


def test_no_api_function_is_strict(functions: list[Function]) -> None:
    # a null by mistake must be an error, not a silent null
    refuse(function.signature for function in functions if function.is_api and function.strict)


def test_every_raise_has_a_code(functions: list[Function]) -> None:
    refuse(
        f"{function.signature}: {statement.strip()}"
        for function in functions
        if function.language == "plpgsql"
        for statement in _raises(function.source)
        if "errcode" not in statement
    )


def _raises(source: str) -> Iterator[str]:
    """The statements that raise an error anew; literals are emptied, comments are left out."""
    plain = re.sub(r"--[^\n]*", "", re.sub(r"'(?:[^']|'')*'", "''", source))
    for statement in re.findall(r"\braise\b([^;]*);", plain):
        words = statement.split()
        if words and words[0] not in ("debug", "log", "info", "notice", "warning"):
            yield statement


def test_the_search_for_raises_finds_them() -> None:
    source = """
        raise exception 'it''s; bad' using errcode = 'MQ001';
        raise notice 'no';  -- raise exception 'nor this';
        raise;
        raise 'bare';
    """
    assert [statement.split()[0] for statement in _raises(source)] == ["exception", "''"]


def test_no_long_list_is_walked_for_each_row(functions: list[Function]) -> None:
    """What is not in an array is found by `except`: a kept plan of `<> all` compares each pair."""
    refuse(
        function.signature for function in functions if re.search(r"<>\s*all\s*\(", function.source)
    )


def test_the_partition_of_a_key_costs_no_call(connection: psycopg.Connection[Any]) -> None:
    """The planner writes it out in the query, and computes nothing else."""
    plan = connection.execute(
        "explain (verbose, costs off)"
        ' select pgq._key_partition(k collate "C", n)'
        " from (values ('a', 8), ('b', 9)) as v (k, n)"
    ).fetchall()
    told = " ".join(line for [line] in plan)
    assert "hashtextextended" in told
    assert "_key_partition" not in told


def test_no_session_state(functions: list[Function]) -> None:
    # a transaction pooler gives the next transaction another session
    # what consume keeps are hints, which it checks: they save a look at all partitions
    names = "found_in|found_at"
    hints = rf"set_config\(\s*'pgq.({names})', [a-z_.()]+(::text)?, false\s*\)"
    refuse(
        function.signature
        for function in functions
        if re.search(
            r"\b(create\s+temp|pg_advisory_lock|pg_try_advisory_lock|prepare\s+\w+\s+as|listen\s+\w)",
            function.source,
        )
        or re.search(r"set_config\([^)]*,\s*false\s*\)", re.sub(hints, "", function.source))
    )


def test_the_api_can_be_called_over_http(functions: list[Function]) -> None:
    polymorphic = ("any", "anyelement", "anyarray", "record", "cstring", "internal")
    refuse(
        function.signature
        for function in functions
        if function.is_api
        and any(type_name.removesuffix("[]") in polymorphic for type_name in function.types)
    )
