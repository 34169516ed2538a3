"""Values that JSON does not have: what is sent for them, and how others are refused."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pydantic
import pytest
from psycopg.types.json import Json, Jsonb

import pgq
from pgq import Client
from support.tasks import with_client

AT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
NUMBER = UUID(int=7)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Part:
    at: datetime = AT
    colours: list[Colour] = field(default_factory=lambda: [Colour.RED])


@dataclass
class Order:
    part: Part
    price: Decimal = Decimal("1.10")


class Struct(msgspec.Struct, rename="camel"):
    made_at: Any = AT
    part: Part | None = None


class Model(pydantic.BaseModel):
    number: UUID = NUMBER
    made_at: datetime = pydantic.Field(default=AT, alias="madeAt")


NAIVE = datetime(2030, 1, 2)
ISO = "2030-01-02T03:04:05+00:00"
PART = {"at": ISO, "colours": ["red"]}


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (AT, ISO),
        (date(2030, 1, 2), "2030-01-02"),
        (time(3, 4), "03:04:00"),
        (NUMBER, str(NUMBER)),
        (Decimal("1.10"), "1.10"),
        (Colour.RED, "red"),
        (MappingProxyType({"a": AT}), {"a": ISO}),
        (Part(), PART),
        ({"orders": [Order(Part())]}, {"orders": [{"part": PART, "price": "1.10"}]}),
        (Struct(part=Part()), {"madeAt": ISO, "part": PART}),
        (Model(), {"number": str(NUMBER), "madeAt": ISO}),
        (Jsonb({"at": AT}), {"at": ISO}),
        (Json(3, dumps=lambda value: f"[{value}]"), [3]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_sent(mail: Client, value: Any, sent: Any) -> None:
    mail.enqueue("mail", value)
    mail.enqueue_batch("mail", [value])
    assert [job.payload for job in mail.claim_job("mail", max_jobs=2)] == [sent, sent]


BAD = [
    ({"order": {"at": NAIVE}}, "payload.order.at: naive datetime; give it a time zone"),
    ({"order": Order(Part(NAIVE))}, "payload.order.part.at: naive datetime; give it a time zone"),
    (Struct(made_at=NAIVE), "payload.madeAt: naive datetime; give it a time zone"),
    (Model(madeAt=NAIVE), "payload.madeAt: naive datetime; give it a time zone"),
    ([1, {"n": float("nan")}], "payload[1].n: nan is not in JSON"),
    (float("-inf"), "payload: -inf is not in JSON"),
    (Decimal("NaN"), "payload: NaN is not in JSON"),
    ({"a": {1}}, "payload.a: set is not in JSON; make it a list"),
    ({"a": b"x"}, "payload.a: bytes is not in JSON; send it as the body"),
    (timedelta(1), "payload: timedelta is not in JSON"),
    ({"a": {NUMBER: 1}}, "payload.a: UUID as a key; make it a text"),
    (Part, "payload: type is not in JSON"),
]


@pytest.mark.parametrize(("value", "error"), BAD, ids=[error for _, error in BAD])
def test_what_is_refused(mail: Client, value: Any, error: str) -> None:
    with pytest.raises(TypeError) as raised:
        mail.enqueue("mail", value)
    assert str(raised.value) == error
    assert mail.claim_job("mail") == []


def test_a_value_in_itself(mail: Client) -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(TypeError, match=r"payload: Circular reference"):
        mail.enqueue("mail", circle)


MOMENTS: dict[str, Callable[[Client, datetime], Any]] = {
    "run_at": lambda c, at: c.enqueue("mail", 1, run_at=at),
    "starts_at": lambda c, at: c.schedules.create_schedule(
        "s", queue="mail", payload=1, cron="0 9 * * *", starts_at=at
    ),
    "due_since": lambda c, at: c.jobs.cancel_jobs("mail", due_since=at),
    "after": lambda c, at: c.schedules.next_ticks("0 9 * * *", after=at),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_points_in_time_have_a_zone(mail: Client, name: str) -> None:
    MOMENTS[name](mail, datetime.now(timezone.utc))
    with pytest.raises(TypeError) as raised:
        MOMENTS[name](mail, NAIVE)
    assert str(raised.value) == f"{name}: naive datetime; give it a time zone"


CALLS: dict[str, Callable[[Client, Any], Any]] = {
    "payload": lambda c, value: c.publish("readings", value),
    "payloads[1]": lambda c, value: c.publish_batch("readings", [1, value]),
    "headers.h": lambda c, value: c.publish("readings", 1, headers={"h": value}),
    "headers[0].h": lambda c, value: c.enqueue_batch("mail", [1], headers=[{"h": value}]),
    "result": lambda c, value: c.archive_job(1, NUMBER, result=value),
    "progress": lambda c, value: c.set_progress(1, NUMBER, value),
    "details": lambda c, value: c.heartbeat("w", details=Jsonb(value)),
}


@pytest.mark.parametrize("path", CALLS)
def test_every_argument(readings: Client, mail: Client, path: str) -> None:
    CALLS[path](mail, {"at": AT})
    with pytest.raises(TypeError) as raised:
        CALLS[path](mail, {"at": NAIVE})
    assert str(raised.value) == f"{path}.at: naive datetime; give it a time zone"


def test_a_schedule(mail: Client) -> None:
    made = mail.schedules.create_schedule("s", queue="mail", payload=Part(), cron="@daily")
    assert made.payload == PART
    with pytest.raises(TypeError, match=r"payload\.at: naive"):
        mail.schedules.alter_schedule("s", payload=Part(NAIVE))


def test_the_result_of_an_effect(mail: Client) -> None:
    """A text that the database cannot have does not keep the effect from being noted."""
    mail.enqueue("mail", 1)
    [job] = mail.claim_job("mail")
    mail.run_once(job, "one", lambda: Part())
    mail.run_once(job, "two", lambda: Struct(made_at="a\0b"))
    results = {one.effect: one.result for one in mail.jobs.effects("mail")}
    assert results == {"one": PART, "two": {"madeAt": "a\\0b", "part": None}}


class Money:
    pass


def _with_money(value: Any) -> Any:
    return ["money", AT] if isinstance(value, Money) else pgq.encode(value)


def test_an_encoder_of_ones_own(dsn: str, mail: Client) -> None:
    with pgq.connect(dsn, encoder=_with_money) as client:
        client.enqueue("mail", {"price": Money()})
        client.schedules.create_schedule("s", queue="mail", payload=Money(), cron="@daily")
        assert client.schedules.list_schedules("s")[0].payload == ["money", ISO]
    assert mail.claim_job("mail")[0].payload == {"price": ["money", ISO]}
    with pytest.raises(TypeError, match=r"payload\.price: Money is not in JSON"):
        mail.enqueue("mail", {"price": Money()})


def test_in_tasks(dsn: str, mail: Client) -> None:
    async def steps(client: pgq.AsyncClient) -> None:
        await client.enqueue("mail", Part(), delay=0.0)
        with pytest.raises(TypeError, match=r"payload\.at: naive"):
            await client.enqueue("mail", Part(NAIVE))

    with_client(dsn, steps)
    assert mail.claim_job("mail", lease=90)[0].payload == PART


# ------------------------------------------------------------------------- lengths of time


def test_numbers_are_seconds(mail: Client) -> None:
    [queue] = [mail.admin.alter_queue("mail", lease=90, delay=0.5, backoff=2, backoff_max=3.5)]
    assert (queue.lease, queue.delay) == (timedelta(seconds=90), timedelta(seconds=0.5))
    assert (queue.backoff, queue.backoff_max) == (timedelta(seconds=2), timedelta(seconds=3.5))
    assert mail.wait(lambda c: None, timeout=0.01, interval=0.005) is None
    with pytest.raises(pgq.ResultTimeout):
        mail.await_result(mail.enqueue("mail", 1).job_id, timeout=0.01)


LENGTHS: dict[str, Callable[[Client], Any]] = {
    "retention is 3: give a timedelta": lambda c: c.admin.create_topic("t", retention=3),  # type: ignore[arg-type]
    "job_ttl is 3.5: give a timedelta": lambda c: c.admin.create_queue("q", job_ttl=3.5),  # type: ignore[arg-type]
    "idempotency_window is 60: give a timedelta": lambda c: c.admin.alter_topic(
        "t",
        idempotency_window=60,  # type: ignore[arg-type]
    ),
    "every is 60: give a timedelta": lambda c: c.schedules.create_schedule(
        "s",
        queue="mail",
        every=60,  # type: ignore[arg-type]
    ),
    "lease is '90': give a timedelta or seconds": lambda c: c.claim_job("mail", lease="90"),  # type: ignore[arg-type]
    "delay is True: give a timedelta or seconds": lambda c: c.enqueue("mail", 1, delay=True),
    "timeout is '1': give a timedelta or seconds": lambda c: c.await_result(1, timeout="1"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("error", LENGTHS)
def test_lengths_that_are_refused(mail: Client, error: str) -> None:
    with pytest.raises(TypeError) as raised:
        LENGTHS[error](mail)
    assert str(raised.value) == error


@pytest.mark.parametrize("lease", [float("nan"), float("inf"), 1e300])
def test_no_length(mail: Client, lease: float) -> None:
    with pytest.raises(
        ValueError, match=f"lease is {lease}, must be a length of time".replace("+", ".")
    ):
        mail.claim_job("mail", lease=lease)
    with pytest.raises(psycopg.Error, match="lease"):
        mail.claim_job("mail", lease=-1)
