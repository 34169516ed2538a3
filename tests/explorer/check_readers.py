"""What those who only read are promised: what is there when they look, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from datetime import datetime

from explorer.check_log import Topic
from explorer.check_ticks import padded
from explorer.history import Event, History
from explorer.known_jobs import Queue

__all__ = ["check_peeks", "check_readers", "looked_at"]

_BYTES = re.compile(r"\\x([0-9a-f]+)")


def looked_at(event: Event) -> int:
    """When the snapshot was taken by which a call answered, as far as is known: not before."""
    old = event.transaction.level not in (None, "read committed")
    return event.transaction.started if old else event.started


def check_readers(topics: list[Topic], history: History, deferred: Collection[str]) -> None:
    """Hold what was answered against what is stored in the end."""
    known = {topic.name: topic for topic in topics if topic.cut is None}
    for event in history.events("check_range", "fetch_packed", "list_offsets", "watermark"):
        topic = known.get(event.arguments["topic"])
        # what a transaction saw that was rolled back may have been its own
        if topic is None or not event.succeeded or not event.transaction.committed:
            continue
        if event.call == "list_offsets":
            if topic.name in deferred:
                continue  # what has no offset yet is not told
            _check_offsets(topic, event)
        elif event.call == "watermark":
            _check_watermark(topic, event)
        elif event.call == "fetch_packed":
            _check_packed(topic, event)
        elif event.arguments["last_offset"] > topic.last[event.arguments["partition"]]:
            history.violate("gap", f"{event.statement} found what is not there: {topic.last}")


def _check_offsets(topic: Topic, event: Event) -> None:
    for row in event.rows:
        partition, last = row["partition"], row["last_offset"]
        missing = [
            published.log_offset
            for published in topic.published
            if published.partition == partition
            and published.log_offset is not None
            and published.log_offset > last
            and published.event.transaction.ended < looked_at(event)
        ]
        if missing or last > topic.last[partition] or row["first_offset"] > topic.first[partition]:
            told = f"{event.statement} answered {row}, not {missing}; in the end {topic.last}"
            topic.history.violate("wrong offsets", told)


def _check_watermark(topic: Topic, event: Event) -> None:
    if topic.history.went_back():
        return
    until = datetime.fromisoformat(padded(event.rows[0]["watermark"]))
    for published in topic.published:
        time = topic.times.get(published.number)
        late = published.event.transaction.ended > event.ended
        late = late and published.event.transaction is not event.transaction
        if late and time is not None and datetime.fromisoformat(padded(time)) < until:
            told = f"{event.statement} answered {until}, message {published.number} is of {time}"
            topic.history.violate("published too late", told)


def _check_packed(topic: Topic, event: Event) -> None:
    partition, next_offset = event.arguments["partition"], event.arguments["first_offset"]
    for row in event.rows:
        if row["first_offset"] != next_offset:
            topic.history.violate("gap", f"{event.statement}: {row}, not from {next_offset}")
        next_offset += row["messages"]
        for place, found in enumerate(_BYTES.findall(row["contents"])):
            published = topic.at.get((partition, row["first_offset"] + place))
            number = json.loads(bytes.fromhex(found)).get("n")
            if published is not None and published.number != number:
                topic.history.violate("wrong content", f"{event.statement}: {row}")
    if next_offset != event.arguments["last_offset"] + 1:
        topic.history.violate("gap", f"{event.statement} ended before {next_offset}")


def check_peeks(queue: Queue) -> None:
    """Nobody is shown a job twice, or one that was finished before."""
    finished = {
        job.job_id: min(event.transaction.ended for event in job.finished)
        for job in queue.jobs.values()
        if job.finished and job.job_id is not None
    }
    for event in queue.since_cut("peek_jobs"):
        shown = [row["job_id"] for row in event.rows]
        if len(set(shown)) < len(shown):
            queue.history.violate("job twice", f"{event.statement}: {shown}")
        for job_id in shown:
            if finished.get(job_id, looked_at(event)) < looked_at(event):
                queue.history.violate("job twice", f"{event.statement} shows {job_id}, finished")
