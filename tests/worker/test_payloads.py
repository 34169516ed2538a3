"""Payloads as the types that handlers ask for."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, Literal, TypedDict
from uuid import UUID

import psycopg
import pydantic
import pytest
from psycopg.adapt import AdaptersMap
from psycopg.types.json import Jsonb, set_json_loads

from pgq import Client, Job
from pgq.worker import AsyncWorker, Handlers, RunningJob, Worker
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
        ({"at": "yesterday"}, "at: 'yesterday' is no datetime"),
        ({"at": "2026-01-02T03:04:05"}, "at: '2026-01-02T03:04:05' has no time zone"),
    ):
        with pytest.raises(Misfit, match=where):
            read(Order, {**ORDER, **wrong})
    with pytest.raises(Misfit, match="does not fit Order"):
        read(Order, [1])
    with pytest.raises(Misfit, match="has a body"):
        read(Order, None, b"x")


@dataclass
class Tree:
    name: str
    size: Literal["s", "l"] = "s"
    below: list[Tree] = field(default_factory=list)
    by_day: dict[date, tuple[int, float]] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    at: time | int | None = None
    computed: int = field(init=False, default=7)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a tree has a name")


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"name": 7}, "name: a text is wanted, not a whole number"),
        ({}, "name: is missing"),
        ({"name": ""}, "a tree has a name"),
        ({"name": "a", "size": "xl"}, "size: 'xl' is none of 's', 'l'"),
        ({"name": "a", "below": [{"name": "b"}, {"name": None}]}, "below[1].name: a text is"),
        ({"name": "a", "by_day": {"today": [1, 2]}}, "by_day.today: 'today' is no date"),
        ({"name": "a", "by_day": {"2026-01-02": [1]}}, "by_day.2026-01-02: 2 items are wanted"),
        ({"name": "a", "by_day": {"2026-01-02": [True, 1]}}, "by_day.2026-01-02[0]: a whole"),
        ({"name": "a", "tags": "x"}, "tags: an array is wanted, not a text"),
        ({"name": "a", "at": []}, "at: a text is wanted, not an array or a whole number is"),
        ([], "an object is wanted, not an array"),
    ],
)
def test_where_a_dataclass_does_not_fit(payload: Any, path: str) -> None:
    with pytest.raises(Misfit, match=re.escape(f"the payload does not fit Tree: {path}")):
        read(Tree, payload)


def test_fields_of_dataclasses() -> None:
    """What is not a field is left out, as a newer sender may add some."""
    given = {
        "name": "a",
        "below": [{"name": "b", "below": [{"name": "c"}]}],
        "by_day": {"2026-01-02": [1, 2.5]},
        "tags": ["x", "y"],
        "at": "12:30",
        "newer": True,
        "computed": 1,
    }
    tree = read(Tree, given)
    assert tree.below[0].below == [Tree("c")]
    assert tree.by_day == {date(2026, 1, 2): (1, 2.5)}
    assert (tree.tags, tree.at, tree.computed) == ({"x", "y"}, time(12, 30), 7)
    assert read(list[Kind], ["letter"]) == [Kind.LETTER]
    assert read(Decimal, 0.1) == Decimal("0.1")


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
    assert read(Order, ORDER).address == Address("Bonn")
    with pytest.raises(TypeError, match=r"the extra typed: pip install"):
        read(Note, {"text": "a", "stars": 1})


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


@pytest.mark.parametrize("batch", [None, 5])
def test_the_job_has_the_payload_of_its_handler(
    dsn: str,
    connection: psycopg.Connection[Any],
    kind: type[Worker] | type[AsyncWorker],
    as_handler: Any,
    batch: int | None,
) -> None:
    client = Client(connection)
    for queue in ("mail", "raw"):
        client.admin.create_queue(queue)
    same: list[bool] = []
    raw: list[Any] = []

    def one(given: Address, job: RunningJob[Address]) -> None:
        same.append(job.payload is given and given == Address("Bonn"))

    def many(given: list[Address], jobs: list[RunningJob[Address]]) -> None:
        for address, running in zip(given, jobs):
            one(address, running)

    worker = kind(dsn)
    worker.handler("mail", batch=batch)(as_handler(one if batch is None else many))
    worker.handler("raw")(as_handler(lambda body, job: raw.append((body, job.body, job.payload))))
    client.enqueue("mail", {"city": "Bonn"})
    client.enqueue("raw", body=b"raw")
    with working(worker):
        wait_until(lambda: len(client.jobs.archived_jobs()) == 2)
    assert (same, raw) == ([True], [(b"raw", b"raw", None)])
