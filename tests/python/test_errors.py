"""Errors arrive by SQLSTATE as classes that are psycopg's too."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from pgq import (
    AlreadyExists,
    Client,
    LeaseLost,
    OffsetOutOfRange,
    PgqError,
    UnknownGroup,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
    WriteLost,
    errors,
    translated,
)


def _prepare(client: Client) -> Client:
    client.admin.create_topic("readings", partitions=1)
    client.admin.create_group("readings", "sums")
    client.admin.create_queue("mail")
    return client


CASES: list[tuple[type[PgqError], str, type[psycopg.Error], Callable[[Client], object]]] = [
    (UnknownTopic, "MQ001", psycopg.ProgrammingError, lambda c: c.publish("nothing", 1)),
    (UnknownQueue, "MQ002", psycopg.ProgrammingError, lambda c: c.enqueue("nothing", 1)),
    (UnknownGroup, "MQ003", psycopg.ProgrammingError, lambda c: c.poll("readings", "nobody")),
    (
        OffsetOutOfRange,
        "MQ004",
        psycopg.DataError,
        lambda c: c.commit_offset("readings", "sums", 0, 99),
    ),
    (
        AlreadyExists,
        "MQ005",
        psycopg.ProgrammingError,
        lambda c: c.admin.create_queue("mail", max_attempts=1),
    ),
    (
        LeaseLost,
        "MQ006",
        psycopg.OperationalError,
        lambda c: c.commit_offset(
            "readings",
            "sums",
            0,
            1,
            lease_token="00000000-0000-0000-0000-000000000000",  # type: ignore[arg-type]
        ),
    ),
    (
        UnknownPartition,
        "MQ007",
        psycopg.ProgrammingError,
        lambda c: c.publish("readings", 1, partition=5),
    ),
    (WriteLost, "MQ008", psycopg.OperationalError, lambda c: c.bulk.commit_write(UUID(int=0))),
]


@pytest.mark.parametrize(("kind", "code", "base", "call"), CASES, ids=[c[1] for c in CASES])
def test_each_code_has_its_class(
    connection: psycopg.Connection[Any],
    kind: type[PgqError],
    code: str,
    base: type[psycopg.Error],
    call: Callable[[Client], object],
) -> None:
    client = _prepare(Client(connection))
    client.publish("readings", 1)
    with pytest.raises(kind) as caught:
        call(client)
    error = caught.value
    assert type(error) is kind
    assert error.sqlstate == error.diag.sqlstate == kind.sqlstate == code
    assert isinstance(error, (PgqError, base))
    # what to do, and not where the server was
    assert error.diag.context
    said = [error.diag.message_primary, error.detail, error.hint]
    words = [line.partition(":  ")[2] or line for line in str(error).splitlines()]
    assert words == [line for line in said if line]
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert isinstance(error, base)
    assert isinstance(error, psycopg.Error)
    assert error.diag.message_primary
    assert error.detail == error.diag.message_detail
    assert error.hint == error.diag.message_hint
    assert error.__cause__ is None


def test_dictionary_is_complete() -> None:
    own = {
        kind.sqlstate: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, PgqError) and kind is not PgqError
    }
    assert own == {code: kind for code, kind in errors.BY_SQLSTATE.items() if code.startswith("MQ")}
    for code, kind in errors.BY_SQLSTATE.items():
        assert kind.sqlstate == code


def test_facts_are_in_the_detail(connection: psycopg.Connection[Any]) -> None:
    client = _prepare(Client(connection))
    with pytest.raises(OffsetOutOfRange) as caught:
        client.commit_offset("readings", "sums", 0, 99)
    assert caught.value.detail


def test_errors_can_be_pickled(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(UnknownTopic) as caught:
        Client(connection).admin.drop_group("nothing", "nobody")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is UnknownTopic
    assert copy.diag.message_primary == caught.value.diag.message_primary


def test_psycopgs_own_errors_stay(connection: psycopg.Connection[Any]) -> None:
    client = _prepare(Client(connection))
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        client.consume("readings", "sums", max_messages=0)
    with pytest.raises(psycopg.errors.NullValueNotAllowed):
        client.enqueue_batch("mail", [1, None])
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        client.poll("readings", "sums", lease=timedelta(seconds=-1))


def test_statements_of_ones_own(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(UnknownTopic), translated():
        connection.execute("select pgq.drop_topic('nothing')")
    with pytest.raises(psycopg.errors.UndefinedTable), translated():
        connection.execute("select from nothing")


def test_transaction_is_the_callers_after_an_error(connect: Any) -> None:
    connection = connect()
    client = Client(connection)
    client.admin.create_topic("readings")
    connection.commit()
    with pytest.raises(UnknownTopic), connection.transaction():
        client.publish("nothing", 1)
    client.publish("readings", 1)
    with pytest.raises(UnknownTopic):
        client.publish("nothing", 1)
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
    connection.rollback()
