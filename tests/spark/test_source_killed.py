"""Drivers with a stream from a topic that are killed, and what they leave for others to read."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import PATIENCE
from support.log import new_topic
from support.session import Connect, Session
from support.stream import PASSWORD, Stream, needs_limits
from support.waiting import wait_until

pytest.importorskip("pyspark")

Location = tuple[str, dict[str, str]]
DRIVER = Path(__file__).resolve().parent / "source_driver.py"


# ---------------------------------------------------------------------------- secrets


@pytest.mark.slow
@pytest.mark.parametrize(
    "form",
    [
        pytest.param("jdbc", marks=pytest.mark.long),
        "properties",
        pytest.param("libpq", marks=pytest.mark.long),
    ],
)
def test_the_password_is_shown_nowhere(
    stream: Stream, spark: Any, own: Session, location: Location, form: str
) -> None:
    """Not in plans, progress, descriptions or errors, whichever way it is given."""
    from pgq.spark import PgqDataSource

    topic = new_topic(own, messages=1)
    url, properties = location
    user = properties["user"]
    options = {
        "jdbc": {"url": f"{url}?user={user}&password={PASSWORD}"},
        "properties": {"url": url, "user": user, "password": PASSWORD},
        "libpq": {
            "url": url.replace("jdbc:postgresql://", f"postgresql://{user}:{PASSWORD}@"),
        },
    }[form]
    stream._options = options
    query = stream.start(topic, startingOffsets="earliest")
    query.awaitTermination()
    assert stream.batches() == [[(0, 1)]]
    batch = spark.read.format("pgq").options(**options, topic=topic).load()
    texts = [
        *(progress.json for progress in query.recentProgress),
        str(query.status),
        query._jsq.toString(),
        batch._jdf.queryExecution().toString(),
        repr(batch),
        repr(PgqDataSource({**options, "topic": topic}).reader(batch.schema)),
    ]
    for wrong in (
        {"topic": "nowhere"},
        {"topic": topic, "unknown": "1"},
        {"topic": topic, "startingOffsets": "soon"},
        {"topic": topic, "url": options["url"].replace("127.0.0.1:", "127.0.0.1:1")},
        {"topic": topic, "url": options["url"].replace("postgresql:", "postgre:")},
        {"topic": topic, "url": options["url"].replace("pgq_test", "nowhere")},
    ):
        with pytest.raises(Exception, match="pgq") as caught:
            spark.read.format("pgq").options(**{**options, **wrong}).load().collect()
        texts += [str(caught.value), repr(caught.value)]
        texts += [str(getattr(caught.value, "desc", "")), str(caught.value.__cause__)]
    assert [text for text in texts if PASSWORD in text] == []


# ---------------------------------------------------------------------------- crashes

# Holds the calls for messages from 4 on while the test holds the lock; they are the real ones.
GATE = """
alter function pgq.fetch_packed set schema public;
create function pgq.fetch_packed(
    topic text, partition int, first_offset bigint, last_offset bigint, first_partition_id bigint
)
returns setof pgq.packed_messages
language plpgsql
as $$
begin
    if first_offset >= 4 then
        perform pg_advisory_xact_lock_shared(1);
    end if;
    return query
    select *
    from public.fetch_packed(
        fetch_packed.topic,
        fetch_packed.partition,
        fetch_packed.first_offset,
        fetch_packed.last_offset,
        fetch_packed.first_partition_id
    );
end
$$;
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "limit"),
    [
        pytest.param("reading", None, marks=pytest.mark.long),
        ("planned", "3"),
        pytest.param("writing", None, marks=pytest.mark.long),
        pytest.param("writing", "3", marks=pytest.mark.long),
        ("committed", "3"),
    ],
)
def test_a_driver_that_is_killed(
    spark: Any,
    broker: Any,
    own: Session,
    connect: Connect,
    location: Location,
    tmp_path: Path,
    step: str,
    limit: str | None,
) -> None:
    """In the second batch: while the source reads, before the sink, in its commit, and after it.

    Without a limit, the first batch is one of an earlier run. The query goes on from its
    checkpoint, and the output has each message once. The password is in nothing that the killed
    one has written.
    """
    from pgq.spark import register

    if limit is not None:
        needs_limits()
    topic, output = new_topic(own, messages=9 if limit else 3), new_topic(own)
    url, properties = location
    properties = {**properties, "password": PASSWORD}
    options = {"url": url, **properties, "topic": topic, "startingOffsets": "earliest"}
    if limit is not None:
        options["maxOffsetsPerTrigger"] = limit
    checkpoint = tmp_path / "checkpoint"
    register(spark)

    def start() -> Any:
        messages = spark.readStream.format("pgq").options(**options).load()
        return (
            messages.select("key", "value")
            .writeStream.option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .foreachBatch(broker.sink(topic=output, producer="query"))
            .start()
        )

    if limit is None:
        start().awaitTermination()
        own.publish_batch(topic=topic, payloads=list(range(4, 10)))
    settings = {
        "url": url,
        "properties": properties,
        "options": options,
        "checkpoint": str(checkpoint),
        "output": output,
        "stop": "planned" if step == "writing" else step,
    }
    log = tmp_path / "log"
    lock = connect()
    if step == "reading":
        own.execute(GATE)
        lock.execute("select pg_advisory_xact_lock(1)")
    with driver(settings, log) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if step != "reading":
            assert process.stdout.readline().strip() == settings["stop"], log.read_text()[-5000:]
        if step == "writing":
            lock.publish(topic=output, payload=0)
            process.stdin.write("go on\n")
            process.stdin.flush()
        if step in ("reading", "writing"):
            blocked = f"{BACKENDS} and wait_event_type = 'Lock'"
            wait_until(
                lambda: own.execute(blocked).fetchone() or process.poll() is not None,
                PATIENCE,
                "for the driver to wait for a lock",
            )
        assert process.poll() is None, log.read_text()[-5000:]
    lock.rollback()
    wait_until(lambda: not own.execute(BACKENDS).fetchone(), PATIENCE, "for it to be gone")
    # the server finishes a commit even if nobody is there any more to hear of it
    second = 3 if limit else 6
    assert len(published(own, output)) == 3 + second * (step in ("writing", "committed"))

    start().awaitTermination()
    assert sorted(published(own, output)) == [b"%d" % number for number in range(1, 10)]

    written = log.read_text(errors="replace")
    assert "MicroBatchExecution" in written
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert [path.name for path in files if path.parent.name == "offsets"]
    for text in [written, *(path.read_text(errors="replace") for path in files)]:
        assert PASSWORD not in text


BACKENDS = (
    "select pid from pg_stat_activity"
    " where application_name = 'pgq spark' and datname = current_database()"
)


def published(log: Session, topic: str) -> list[bytes]:
    """The bodies of all messages of a topic."""
    rows = log.execute("select body from pgq.messages where topic = %s", [topic]).fetchall()
    return [row[0] for row in rows]


@contextlib.contextmanager
def driver(settings: dict[str, Any], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A driver of its own, with a log; at the end it is killed, and all that it started."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, DRIVER, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
