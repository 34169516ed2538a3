"""The settings on_duplicate and debounce_max: what goes together, and what can be changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.duplicates import put, replacing
from support.queue import claim_one, settings
from support.session import Session, new_name, refused, unchanged

CLAIMED = {"unique_until": "claimed"}
REFUSED: list[dict[str, Any]] = [
    {"on_duplicate": "replace"},
    {"on_duplicate": "replace", "unique_until": "finished"},
    {"on_duplicate": "postpone", "unique_until": "removed"},
    {"on_duplicate": "replace", **CLAIMED, "max_leased_per_key": 1},
    {"on_duplicate": "postpone", **CLAIMED, "max_leased_per_key": 1},
    {"on_duplicate": "postpone", **CLAIMED, "ordered": True},
    {"on_duplicate": "replace", **CLAIMED, "debounce_max": "1 hour"},
    {"debounce_max": "1 hour"},
    {"on_duplicate": "postpone", **CLAIMED, "debounce_max": "0"},
    {"on_duplicate": "postpone", **CLAIMED, "debounce_max": "-1 s"},
    {"on_duplicate": "Replace", **CLAIMED},
    {"on_duplicate": "", **CLAIMED},
]


@pytest.mark.parametrize("given", REFUSED, ids=str)
def test_what_is_refused(connection: Session, given: dict[str, Any]) -> None:
    with unchanged(connection):
        refused("22023", connection.create_queue, queue=new_name("queue"), **given)


def test_defaults(connection: Session, queue: str) -> None:
    found = settings(connection, queue)
    assert (found["on_duplicate"], found["debounce_max"]) == ("keep", None)
    for name in (replacing(connection), replacing(connection, "postpone")):
        assert settings(connection, name)["debounce_max"] is None


def test_a_queue_that_exists(connection: Session) -> None:
    queue = replacing(connection, "postpone", debounce_max="1 hour")
    for given in ({}, {"on_duplicate": "postpone"}, {**CLAIMED, "debounce_max": "60 minutes"}):
        assert connection.create_queue(queue=queue, **given).queue == queue
    with unchanged(connection):
        for other, detail in (
            ({"on_duplicate": "keep"}, "on_duplicate: given keep, has postpone."),
            ({"debounce_max": "2 hours"}, "debounce_max: given 02:00:00, has 01:00:00."),
        ):
            error = refused("MQ005", connection.create_queue, queue=queue, **other)
            assert error.diag.message_detail == detail


def test_what_can_be_altered(connection: Session) -> None:
    """debounce_max and its limit; not what would go with another unique_until."""
    queue = replacing(connection, "postpone")
    connection.alter_queue(queue=queue, debounce_max="1 hour")
    assert settings(connection, queue)["debounce_max"] == timedelta(hours=1)
    connection.alter_queue(queue=queue, lease="1 hour")
    assert settings(connection, queue)["debounce_max"] == timedelta(hours=1)
    connection.alter_queue(queue=queue, no_limit=["debounce_max"])
    assert settings(connection, queue)["debounce_max"] is None
    other = replacing(connection)
    with unchanged(connection):
        for wrong in ({"unique_until": "finished"}, {"max_leased_per_key": 1}):
            refused("22023", connection.alter_queue, queue=queue, **wrong)
        refused("22023", connection.alter_queue, queue=queue, debounce_max="0")
        refused("22023", connection.alter_queue, queue=other, debounce_max="1 hour")


def test_limits_of_the_whole_queue(connection: Session) -> None:
    """max_leased, rate_limit and priorities go with it."""
    queue = replacing(connection, max_leased=1, rate_limit=1000)
    first, _ = put(connection, queue, "old", priority=9)
    assert put(connection, queue, "new") == (first, True)
    job = claim_one(connection, queue)
    assert job.payload == "new"
    second, duplicate = put(connection, queue, "newest")
    assert duplicate is False
    assert connection.nack(job_id=first, lease_token=job.lease_token, delay="0")
    assert claim_one(connection, queue).job_id == second
