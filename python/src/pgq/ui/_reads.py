"""What the page can ask for: a document for each of its views."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from pgq import Client
from pgq._sampling import permitted, queue_figures
from pgq.cli._doctor import examine
from pgq.ui._browsing import message, messages
from pgq.ui._documents import WHOLE, document, row
from pgq.ui._ended import attempts, result
from pgq.ui._history import History
from pgq.ui._lists import dead, errors, finished, jobs
from pgq.ui._many import matching
from pgq.ui._query import Query
from pgq.ui._rights import rights
from pgq.ui._source import Problem, Source
from pgq.ui._workers import workers

__all__ = ["Reads"]

EXAMINED_AGAIN = 20.0
"""Seconds for which the findings of doctor are those of all who ask."""


class Reads:
    """The answers, by their names."""

    def __init__(self, source: Source, history: History) -> None:
        self._source = source
        self._history = history
        self._examining = threading.Lock()
        self._examined: tuple[float, Any] | None = None
        self._seen: Mapping[str, Callable[[Query], Any]] = {
            "overview": self._overview,
            "history": self._series,
            "doctor": self._doctor,
        }
        self._asked: Mapping[str, Callable[[Client, Query], Any]] = {
            "about": self._about,
            "topics": _topics,
            "topic": _topic,
            "group": _group,
            "messages": messages,
            "message": message,
            "queues": _queues,
            "queue": _queue,
            "jobs": jobs,
            "job": _job,
            "dead": dead,
            "errors": errors,
            "finished": finished,
            "matching": matching,
            "subscriptions": lambda client, _: client.admin.list_subscriptions(),
            "schedules": _schedules,
            "workers": lambda client, _: client.monitor.list_workers(),
            "access": lambda client, _: client.admin.list_access(),
        }

    def answer(self, name: str, query: Query) -> Any:
        """The document of that name; Problem where there is none."""
        if seen := self._seen.get(name):
            return document(seen(query))
        asked = self._asked.get(name)
        if asked is None:
            raise Problem(404, f"there is nothing called {name}")
        with self._source.reading() as client:
            return document(asked(client, query))

    def _about(self, client: Client, _: Query) -> dict[str, Any]:
        info = client.connection.info
        standby = info.parameter_status("in_hot_standby") == "on"
        return {
            "database": info.dbname,
            "role": info.user,
            "server": f"{info.server_version // 10000}.{info.server_version % 10000}",
            "version": client.version(),
            "standby": standby,
            "read_only": self._source.read_only,
            **rights(client, info.user, read_only=self._source.read_only, standby=standby),
        }

    def _overview(self, _: Query) -> dict[str, Any]:
        return self._history.latest()

    def _series(self, query: Query) -> dict[str, Any]:
        kind, topic = query.text("kind"), query.maybe("topic")
        name = query.text("name")
        return self._history.series(kind, *((topic, name) if topic else (name,)))

    def _doctor(self, _: Query) -> Any:
        with self._examining:
            if self._examined is None or time.monotonic() > self._examined[0]:
                with self._source.reading() as client:
                    look = examine(client.connection, timedelta(minutes=5))
                found = {"findings": look.findings, "checked": look.checked}
                self._examined = time.monotonic() + EXAMINED_AGAIN, found
            return self._examined[1]


def _one(rows: list[Any], what: str, name: str) -> Any:
    if not rows:
        raise Problem(404, f'unknown {what} "{name}"')
    return rows[0]


def _topics(client: Client, _: Query) -> Any:
    return client.admin.list_topics()


def _topic(client: Client, query: Query) -> dict[str, Any]:
    name = query.text("topic")
    found = [one for one in client.admin.list_topics() if one.topic == name]
    return {
        "settings": _one(found, "topic", name),
        "partitions": client.monitor.topic_stats(name),
        **_around(client, "topic", name),
    }


def _around(client: Client, kind: str, name: str) -> dict[str, list[Any]]:
    """What a topic or queue is used by, as far as the role may list it."""
    found: dict[str, list[Any]] = {"groups": [], "subscriptions": [], "schedules": []}
    if kind == "topic":
        with permitted(client):
            found["groups"] = client.admin.list_groups(name)
    with permitted(client):
        every = client.admin.list_subscriptions()
        found["subscriptions"] = [one for one in every if getattr(one, kind) == name]
    with permitted(client):
        timed = client.schedules.list_schedules()
        found["schedules"] = [row(one) for one in timed if getattr(one, kind) == name]
    return found


def _group(client: Client, query: Query) -> dict[str, Any]:
    topic, name = query.text("topic"), query.text("group")
    found = [one for one in client.admin.list_groups(topic) if one.consumer_group == name]
    return {
        "settings": _one(found, "consumer group", name),
        "partitions": client.monitor.group_lag(topic, name),
    }


def _queues(client: Client, _: Query) -> Any:
    return client.admin.list_queues()


def _queue(client: Client, query: Query) -> dict[str, Any]:
    name = query.text("queue")
    found = [one for one in client.admin.list_queues() if one.queue == name]
    stats, estimated = queue_figures(client, name)
    return {
        "settings": _one(found, "queue", name),
        "stats": _one(stats, "queue", name),
        "estimated": estimated.get(name),
        **_around(client, "queue", name),
    }


def _job(client: Client, query: Query) -> dict[str, Any]:
    job_id = query.whole("job_id")
    found = client.get_job(job_id)
    tried = attempts(client, job_id)
    if found is not None:
        return {**row(found, WHOLE), "attempts": tried, **workers(client, found)}
    ended = result(client, job_id)
    if ended is None and not tried:
        raise Problem(
            404,
            f"there is no job {job_id}, or it has ended",
            "how a job ended is kept in queues with keep_results",
        )
    return {"job_id": job_id, "ended": ended or {"state": "ended"}, "attempts": tried}


def _schedules(client: Client, _: Query) -> Any:
    return [row(one) for one in client.schedules.list_schedules()]
