"""Payloads as the types that handlers ask for."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, TypedDict
from uuid import UUID

import psycopg
import pydantic
import pytest
from psycopg.adapt import AdaptersMap
from psycopg.types.json import Jsonb, set_json_loads

from pgq import Client, Job
from pgq.worker import Handlers, Worker
from pgq.worker._outcomes import Misfit
from support.waiting import PATIENCE, wait_until
from support.working import working


class Kind(Enum):
    LETTER = "letter"
    PARCEL = "parcel"


@dataclass
class Address:
    city: str
    zip: int | None = None


@dataclass
class Order:
    number: UUID
    at: datetime
    total: Decimal
    kind: Kind
    address: Address
    lines: list[dict[str, int]] = field(default_factory=list)


class Note(TypedDict):
    text: str
    stars: int


class Model(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)


ORDER = {
    "number": "7f3e2f40-0b1a-4c5d-9e8f-112233445566",
    "at": "2026-01-02T03:04:05Z",
    "total": "12.50",
    "kind": "parcel",
    "address": {"city": "Bonn"},
    "lines": [{"a": 1}],
}


def job(payload: Any = None, body: bytes | None = None) -> Job:
    values: dict[str, Any] = dict.fromkeys(Job.__slots__)
    return Job(**{**values, "payload": payload, "body": body})


def read(kind: Any, *content: Any) -> Any:
    handlers = Handlers()

    def handle(payload: Any) -> None: ...

    handle.__annotations__ = {"payload": kind}
    handlers.handler("mail")(handle)
    return handlers.by_queue["mail"].read(job(*content))


def test_dataclasses() -> None:
    order = read(Order, ORDER)
    assert order == Order(
        UUID(ORDER["number"]),  # type: ignore[arg-type]
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
        Decimal("12.50"),
        Kind.PARCEL,
        Address("Bonn"),
        [{"a": 1}],
    )
    for wrong, where in (
        ({"address": {}}, "city"),
        ({"kind": "letterbox"}, "kind"),
        ({"lines": [{"a": "x"}]}, "lines"),
        ({"at": "yesterday"}, "at"),
    ):
        with pytest.raises(Misfit, match=where):
            read(Order, {**ORDER, **wrong})
    with pytest.raises(Misfit, match="does not fit Order"):
        read(Order, [1])
    with pytest.raises(Misfit, match="has a body"):
        read(Order, None, b"x")


def test_typed_dicts_and_generics() -> None:
    assert read(Note, {"text": "a", "stars": 1}) == {"text": "a", "stars": 1}
    with pytest.raises(Misfit, match="stars"):
        read(Note, {"text": "a"})
    assert read(list[UUID], [ORDER["number"]]) == [UUID(ORDER["number"])]  # type: ignore[arg-type]
    assert read(Address | None, None) is None
    with pytest.raises(Misfit):
        read(list[int], {"a": 1})


def test_models_of_pydantic() -> None:
    assert read(Model, {"name": "a", "age": 1}) == Model(name="a", age=1)
    assert read(list[Model], [{"name": "a", "age": 1}]) == [Model(name="a", age=1)]
    with pytest.raises(Misfit, match="age"):
        read(Model, {"name": "a", "age": -1})


def test_plain_types() -> None:
    assert read(Any, None, b"raw") == b"raw"
    assert read(bytes, None, b"raw") == b"raw"
    assert read(float, 1) == 1
    assert read(bool, True) is True
    for kind, wrong in ((int, True), (int, 1.5), (str, 1), (dict, []), (list, {}), (bytes, "a")):
        with pytest.raises(Misfit):
            read(kind, wrong)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    assert read(dict, {}) == {}
    with pytest.raises(TypeError, match=r"pgq\[typed\]"):
        read(Order, ORDER)


def test_what_does_not_fit_is_rejected(dsn: str, connection: psycopg.Connection[Any]) -> None:
    client = Client(connection)
    client.admin.create_queue("mail")
    got: list[Order] = []
    worker = Worker(dsn)

    @worker.handler("mail")
    def handle(order: Order) -> None:
        got.append(order)

    client.enqueue("mail", ORDER)
    client.enqueue("mail", {**ORDER, "total": "much"})
    with working(worker):
        wait_until(lambda: got and client.jobs.dead_letters("mail"), PATIENCE)
    [letter] = client.jobs.dead_letters("mail")
    assert letter.attempt == 1, "it is not tried again"
    assert str(letter.last_error).startswith("the payload does not fit Order: ")
    assert "total" in str(letter.last_error)


def test_fractions_as_decimals(dsn: str, connection: psycopg.Connection[Any]) -> None:
    """By a decoder that its connections get; whole numbers fit too."""
    client = Client(connection)
    client.admin.create_queue("mail")
    exact = AdaptersMap(psycopg.adapters)
    set_json_loads(partial(json.loads, parse_float=Decimal), exact)
    seen: list[Decimal] = []
    worker = Worker(dsn, connect={"context": exact})

    @worker.handler("mail")
    def handle(total: Decimal) -> None:
        seen.append(total)

    totals = ["0.1234567890123456789012345", "1" * 400 + ".5", "7"]
    client.enqueue_batch("mail", [Jsonb(total, dumps=str) for total in totals])
    with working(worker):
        wait_until(lambda: len(seen) == 3, PATIENCE)
    assert {*map(str, seen)} == {*totals}
    assert {*map(type, seen)} == {Decimal}
