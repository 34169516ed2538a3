"""SQLAlchemy 2, asynchronous, on asyncpg."""

import asyncio
import json
import os
from datetime import timedelta
from uuid import uuid4

from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

PUBLISH = text(
    "select * from pgq.publish(topic => :topic, payload => cast(:payload as jsonb),"
    " key => :key, body => :body)"
)
BATCH = text(
    "select * from pgq.publish_batch(topic => :topic,"
    " payloads => cast(:payloads as jsonb[]), keys => cast(:keys as text[]))"
)
CONSUME = text(
    "select log_offset, key, payload, body from pgq.consume(topic => :topic, consumer_group => :g)"
)
ENQUEUE = text(
    "select * from pgq.enqueue(queue => :queue, payload => cast(:payload as jsonb),"
    " delay => :delay)"
)
CLAIM = text("select job_id, lease_token, attempt, payload from pgq.claim_job(queue => :queue)")
ACK = text("select pgq.ack(:job_id, :token)")

url = make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+asyncpg")
# These three only behind a pooler in transaction mode.
engine = create_async_engine(
    url,
    connect_args={
        "statement_cache_size": 0,
        "prepared_statement_cache_size": 0,
        "prepared_statement_name_func": lambda: f"pgq_{uuid4()}",
    },
)
group = {"topic": "orders", "g": "billing"}


async def main() -> None:
    async with engine.begin() as connection:
        run = connection.execute
        await run(text("select pgq.create_topic(topic => :topic, partitions => 1)"), group)
        await run(text("select pgq.create_group(topic => :topic, consumer_group => :g)"), group)
        await run(text("select pgq.create_queue(queue => 'mail')"))

        payload = json.dumps({"text": "Grüße, 東京 🐘"})
        message = {"topic": "orders", "payload": payload, "key": "ada", "body": None}
        print(f"published: offset {(await run(PUBLISH, message)).one().log_offset}")
        payloads = [json.dumps({"text": each}) for each in ("two", "three", "four")]
        batch = {"topic": "orders", "payloads": payloads, "keys": ["ada", None, "bob"]}
        for row in await run(BATCH, batch):  # one for each partition
            print(f"batch: offsets {row.first_offset} to {row.last_offset}")
        message = {"topic": "orders", "payload": None, "key": None, "body": b"\x00\xffA"}
        print(f"bytes: offset {(await run(PUBLISH, message)).one().log_offset}")

    async with engine.connect() as connection:
        messages = (await connection.execute(CONSUME, group)).all()
        await connection.rollback()
        print(f"rolled back: {len(messages)} messages")
    async with engine.begin() as connection:
        messages = (await connection.execute(CONSUME, group)).all()
        # what is written here happens exactly once for each of these messages
    print(f"committed: {len(messages)} messages")
    for each in messages:
        content = each.payload["text"] if each.payload is not None else each.body.hex()
        print(each.log_offset, "-" if each.key is None else each.key, content)
    async with engine.begin() as connection:
        print(f"left: {len((await connection.execute(CONSUME, group)).all())} messages")

    async with engine.begin() as connection:
        for name, delay in (("ada", None), ("bob", timedelta(hours=2))):
            payload = json.dumps({"to": name})
            job = {"queue": "mail", "payload": payload, "delay": delay}
            await connection.execute(ENQUEUE, job)
    async with engine.begin() as connection:
        job = (await connection.execute(CLAIM, {"queue": "mail"})).one()
    print(f"claimed: {job.payload['to']}, attempt {job.attempt}")
    lease = {"job_id": job.job_id, "token": job.lease_token}
    for name in ("ack", "stale ack"):
        async with engine.begin() as connection:
            done = (await connection.execute(ACK, lease)).scalar_one()
        print(f"{name}: {'true' if done else 'false'}")

    try:
        async with engine.begin() as connection:
            await connection.execute(PUBLISH, {**message, "topic": "nowhere"})
    except DBAPIError as error:
        if error.orig.sqlstate != "MQ001":
            raise
        print("unknown topic:", error.orig.sqlstate)
    await engine.dispose()


asyncio.run(main())
