"""The client's methods, the functions in the database and the dataclasses are one API."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import api
import pgq
from pgq import Client, messages
from pgq._signatures import SIGNATURES
from support.client import groups, methods
from support.session import Session

NOT_FUNCTIONS = {
    "close",
    "retry",
    "run_once",
    "wait",
    "await_result",
    "group_lag",
    "topic_stats",
    "queue_stats",
    "dead_letters",
    "effects",
    "archived_jobs",
}
"""The client's helpers, and the views."""

METHODS = {name: function for name, (_, function) in methods(Client).items()}

VIEWS = {
    "group_lag": messages.GroupLag,
    "topic_stats": messages.TopicStats,
    "queue_stats": messages.QueueStats,
    "dead_letters": messages.DeadLetter,
    "effects": messages.Effect,
    "archived_jobs": messages.ArchivedJob,
}

PYTHON_TYPES = {
    "int": {"integer", "bigint", "smallint"},
    "str": {"text", 'pgq."text/plain"'},
    "float": {"double precision"},
    "bool": {"boolean"},
    "bytes": {"bytea"},
    "datetime": {"timestamp with time zone"},
    "timedelta": {"interval"},
    "UUID": {"uuid"},
    "dict[str, Any]": {"jsonb"},
    "dict[str, list[Any]]": {"jsonb"},
    "Any": {"jsonb"},
    "Payload": {"jsonb"},
    "list[str]": {"text[]"},
    "list[str | None]": {"text[]"},
    "list[bytes]": {"bytea[]"},
    "list[bytes | None]": {"bytea[]"},
    "list[int]": {"bigint[]"},
}


def assert_fields_match(columns: Iterable[api.Column], kind: Any) -> None:
    columns = list(columns)
    fields = dataclasses.fields(kind)
    assert [field.name for field in fields] == [column.name for column in columns]
    for field, column in zip(fields, columns, strict=True):
        assert column.type in PYTHON_TYPES[str(field.type).removesuffix(" | None")], column.name


def test_methods_are_the_functions() -> None:
    assert METHODS.keys() - NOT_FUNCTIONS == set(SIGNATURES)


def test_a_method_is_in_one_group() -> None:
    everywhere = [
        name
        for part in groups(Client).values()
        for name, _ in inspect.getmembers(part, inspect.isfunction)
        if not name.startswith("_")
    ]
    assert sorted(everywhere) == sorted(METHODS)


def test_a_group_has_the_connection_of_its_client(connection: Session) -> None:
    client = Client(connection)
    for group in groups(Client).keys() - {""}:
        assert getattr(client, group).connection is connection
        assert getattr(client, group) is getattr(client, group)


@pytest.mark.parametrize("function", SIGNATURES)
def test_a_method_has_the_arguments_of_its_function(function: str) -> None:
    signature = SIGNATURES[function]
    parameters = list(inspect.signature(METHODS[function]).parameters.values())[1:]
    # Keyword-only parameters may stand in any order; the positional ones keep theirs.
    assert {each.name for each in parameters} == set(signature.arguments)
    assert [each.name for each in parameters if each.default is each.empty] == [
        name for name in signature.arguments if name in signature.required
    ]


@pytest.mark.parametrize("name", METHODS)
def test_an_argument_that_is_none_is_as_if_it_were_not_given(name: str) -> None:
    parameters = inspect.signature(METHODS[name]).parameters.values()
    assert {each.default for each in parameters} <= {inspect.Parameter.empty, None}


def test_a_method_returns_what_its_function_does(connection: Session) -> None:
    """A list of rows, one of them, or a value; a row of several columns is a dataclass."""
    for function in api.functions(connection):
        hint = get_type_hints(METHODS[function.name])["return"]
        (kind,) = [each for each in get_args(hint) if each is not NoneType] or [hint]
        many = get_origin(hint) is list
        assert many == (function.returns == "rows") or hint == kind | None, function.name
        assert dataclasses.is_dataclass(kind) == (len(function.columns) > 1), function.name
        if dataclasses.is_dataclass(kind):
            assert_fields_match(function.columns, kind)
        elif function.result == "void":
            assert kind is NoneType
        else:
            [found] = [column.type for column in function.columns] or [function.result]
            assert found in PYTHON_TYPES[kind.__name__], function.name


def test_dataclasses_have_the_columns_of_their_views(connection: Session) -> None:
    columns = {view.name: view.columns for view in api.views(connection)}
    for view, kind in VIEWS.items():
        assert_fields_match(columns[view], kind)


def test_every_method_is_documented() -> None:
    for part in groups(Client).values():
        for name in dir(part):
            if not name.startswith("_"):
                assert inspect.getdoc(getattr(part, name)), name


def test_package_exports_what_it_says() -> None:
    for name in (*pgq.__all__, *messages.__all__):
        assert hasattr(pgq, name), name
    assert pgq.__all__ == sorted(pgq.__all__, key=lambda name: (not name.isupper(), name))


CLIENT = Path(pgq.__file__).parent


@pytest.mark.parametrize(
    "path",
    [CLIENT / "_calls.py", *sorted(CLIENT.glob("_async/*.py")), *sorted(CLIENT.glob("_sync/*.py"))],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_client_holds_no_sql_but_calls(path: Path) -> None:
    source = path.read_text()
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
