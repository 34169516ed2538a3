"""None is the default of every optional argument, so that wrappers can pass all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from pgq.local_spark import local_session
from pgq.spark import Pgq
from pgq.spark._write import WriteOptions
from support.session import Session

METHODS = [name for name in vars(Pgq) if not name.startswith("_") and callable(getattr(Pgq, name))]


def nulls(function: Callable[..., Any]) -> dict[str, None]:
    """None for every optional argument."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: None for each in parameters if each.default is not each.empty}


@pytest.mark.parametrize(
    "function", [Pgq, local_session, *(getattr(Pgq, name) for name in METHODS)]
)
def test_none_is_what_an_argument_is_that_is_not_given(function: Callable[..., Any]) -> None:
    """A default that the signature shows could not be asked for by None."""
    parameters = inspect.signature(function).parameters
    assert {parameters[name].default for name in nulls(function)} <= {None}


def test_options_that_are_none_are_the_defaults() -> None:
    options = dict.fromkeys(inspect.signature(WriteOptions).parameters)
    assert WriteOptions.given(**options) == WriteOptions()
    assert WriteOptions.given(atomic=False, chunk_rows=1) == WriteOptions(
        atomic=False, chunk_rows=1
    )


def test_every_method_takes_none(spark: Any, broker: Any, connection: Session) -> None:
    connection.create_topic(topic="readings")
    connection.create_topic(topic="copies")
    connection.create_group(topic="readings", consumer_group="copiers")
    connection.create_queue(queue="mail")
    frame = spark.range(3).selectExpr("cast(id as string) as value")
    none = {name: nulls(getattr(Pgq, name)) for name in METHODS}
    jobs = {"frame": frame, "queue": "mail"}

    def copied(messages: Any) -> Any:
        return messages.select("value")

    assert broker.publish(frame, topic="readings", **none.pop("publish")).messages == 3
    assert broker.enqueue(**jobs, **none.pop("enqueue")).messages == 3
    broker.sink(producer="p", **{**none.pop("sink"), "topic": "readings"})(frame, 0)
    assert broker.read(topic="readings", **none.pop("read")).count() == 6
    target = {**none.pop("consume"), "to_topic": "copies"}
    step = broker.consume(copied, topic="readings", consumer_group="copiers", **target)
    assert (step.messages, step.written.messages) == (6, 6)
    for name in ("read_archived_jobs", "read_dead_letters"):
        assert getattr(broker, name)(queue="mail", **none.pop(name)).count() == 0
    assert broker.watermark(topic="readings", **none.pop("watermark")) is not None
    assert none == {}
