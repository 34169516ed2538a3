"""The client's methods, the functions in the database and the dataclasses are one API."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgq
from pgq import NOT_GIVEN, Client, messages
from pgq._calls import SIGNATURES

AnyConnection = psycopg.Connection[Any]

NOT_FUNCTIONS = {
    "connection",
    "retry",
    "wait",
    "group_lag",
    "topic_stats",
    "queue_stats",
    "dead_letters",
    "archived_jobs",
}
"""The client's properties, its helpers, and the views."""

VIEWS = {
    "group_lag": messages.GroupLag,
    "topic_stats": messages.TopicStats,
    "queue_stats": messages.QueueStats,
    "dead_letters": messages.DeadLetter,
    "archived_jobs": messages.ArchivedJob,
}

COMPOSITES = {
    "topic_info": messages.Topic,
    "group_info": messages.Group,
    "message_position": messages.MessagePosition,
    "offset_range": messages.OffsetRange,
    "message_record": messages.Message,
    "leased_message": messages.LeasedMessage,
    "queue_info": messages.Queue,
    "claimed_job": messages.Job,
    "bulk_write_state": messages.BulkWriteState,
    "cleanup_report": messages.CleanupAction,
}

PYTHON_TYPES = {
    "int": {"integer", "bigint", "smallint"},
    "str": {"text"},
    "float": {"double precision"},
    "bool": {"boolean"},
    "bytes": {"bytea"},
    "datetime": {"timestamp with time zone"},
    "timedelta": {"interval"},
    "UUID": {"uuid"},
    "dict[str, Any]": {"jsonb"},
    "Any": {"jsonb"},
}


def columns_of(connection: AnyConnection, relation: str) -> list[tuple[str, str]]:
    return connection.execute(
        """
        select attname, format_type(atttypid, null)
        from pg_attribute
        where attrelid = format('pgq.%%I', %s::text)::regclass
        and attnum > 0 and not attisdropped
        order by attnum
        """,
        [relation],
    ).fetchall()


def assert_fields_match(columns: list[tuple[str, str]], kind: type) -> None:
    fields = dataclasses.fields(kind)
    assert [field.name for field in fields] == [name for name, _ in columns]
    for field, (name, found) in zip(fields, columns, strict=True):
        assert found in PYTHON_TYPES[str(field.type).removesuffix(" | None")], name


def test_signatures_are_those_in_the_database(connection: AnyConnection) -> None:
    rows = connection.execute(
        """
        select p.proname, a.name, format_type(a.type, null)
        from pg_proc as p
        left join lateral unnest(p.proargtypes::oid[], p.proargnames[1:p.pronargs])
            with ordinality as a (type, name, number) on true
        where p.pronamespace = 'pgq'::regnamespace and p.proname !~ '^_' and p.prokind = 'f'
        order by p.proname, a.number
        """
    ).fetchall()
    found: dict[str, dict[str, str]] = {}
    for function, name, kind in rows:
        arguments = found.setdefault(function, {})
        if name is not None:
            arguments[name] = kind.replace("timestamp with time zone", "timestamptz")
    assert {name: list(found[name].items()) for name in sorted(found)} == {
        name: list(SIGNATURES[name].items()) for name in sorted(SIGNATURES)
    }


def test_methods_are_those_functions() -> None:
    methods = {name for name in vars(Client) if not name.startswith("_")}
    assert methods - NOT_FUNCTIONS == set(SIGNATURES)


def test_methods_have_the_arguments_and_defaults_of_their_functions(
    connection: AnyConnection,
) -> None:
    without_default = dict(
        connection.execute(
            """
            select proname, pronargs - pronargdefaults from pg_proc
            where pronamespace = 'pgq'::regnamespace
            """
        ).fetchall()
    )
    for function, arguments in SIGNATURES.items():
        parameters = list(inspect.signature(getattr(Client, function)).parameters.values())[1:]
        # Keyword-only parameters may stand in any order; the positional ones keep theirs.
        assert {parameter.name for parameter in parameters} == set(arguments), function
        required = [each.name for each in parameters if each.default is each.empty]
        assert required == list(arguments)[: without_default[function]], function
        for parameter in parameters[len(required) :]:
            assert parameter.default in (None, NOT_GIVEN), function


def test_dataclasses_have_the_columns_of_their_types_and_views(connection: AnyConnection) -> None:
    for relation, kind in {**COMPOSITES, **VIEWS}.items():
        assert_fields_match(columns_of(connection, relation), kind)


def test_every_method_is_documented() -> None:
    for name, member in vars(Client).items():
        if not name.startswith("_"):
            assert inspect.getdoc(member), name


def test_package_exports_what_it_says() -> None:
    for name in (*pgq.__all__, *messages.__all__):
        assert hasattr(pgq, name), name
    assert pgq.__all__ == sorted(pgq.__all__, key=lambda name: (not name.isupper(), name))


@pytest.mark.parametrize("module", ["_calls", "_client", "_client_async"])
def test_client_holds_no_sql_but_calls(module: str) -> None:
    source = (Path(pgq.__file__).parent / f"{module}.py").read_text()
    literals = re.findall(r'f?"[^"\n]*"', re.sub(r'""".*?"""', "", source, flags=re.DOTALL))
    keyword = re.compile(
        r"\b(select|insert|update|delete|merge|with|from|set|lock|listen|unlisten|where)\b .", re.I
    )
    allowed = (
        re.compile(r'^f"select pgq\.\{function\}\(\{arguments\}\)"$'),
        re.compile(r'^f"select \{columns\} from pgq\.\{function\}\(\{arguments\}\)"$'),
        re.compile(
            r'^f"select \{_columns\(returns\)\} from pgq\.\{name\}\{where\} order by 1, 2, 3"$'
        ),
        re.compile(r'^f" where \{conditions\}"$'),
        re.compile(r'^f"(un)?listen \{channel\}"$'),
    )
    for literal in literals:
        if keyword.search(literal):
            assert any(pattern.match(literal) for pattern in allowed), literal
