"""asyncpg: a pool, and JSON by a codec that each of its connections is given."""

import asyncio
import json
import os
from datetime import timedelta

import asyncpg


async def prepare(connection: asyncpg.Connection) -> None:
    # From here on jsonb is any Python value: one that json.dumps was used on before is stored
    # as a JSON string. Without this codec it is the other way round: only text is accepted.
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
    )


PUBLISH = "select * from pgq.publish(topic => $1, payload => $2, key => $3, body => $4)"
CONSUME = "select * from pgq.consume(topic => $1, consumer_group => $2)"
ENQUEUE = "select * from pgq.enqueue(queue => $1, payload => $2, delay => $3)"


async def tour(pool: asyncpg.Pool) -> None:
    await pool.execute("select pgq.create_topic(topic => $1, partitions => $2)", "orders", 1)
    await pool.execute("select pgq.create_group(topic => $1, consumer_group => $2)", *GROUP)
    await pool.execute("select pgq.create_queue(queue => $1)", "mail")

    row = await pool.fetchrow(PUBLISH, "orders", {"text": "Grüße, 東京 🐘"}, "ada", None)
    print(f"published: offset {row['log_offset']}")
    rows = await pool.fetch(
        "select * from pgq.publish_batch(topic => $1, payloads => $2, keys => $3)",
        "orders",
        [{"text": "two"}, {"text": "three"}, {"text": "four"}],
        ["ada", None, "bob"],  # texts only: str(key)
    )
    for row in rows:  # one for each partition
        print(f"batch: offsets {row['first_offset']} to {row['last_offset']}")
    row = await pool.fetchrow(PUBLISH, "orders", None, None, b"\x00\xffA")
    print(f"bytes: offset {row['log_offset']}")

    # A transaction is on one connection; pool.fetch would take any other.
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        messages = await connection.fetch(CONSUME, *GROUP)
        await transaction.rollback()
        print(f"rolled back: {len(messages)} messages")

        async with connection.transaction():
            messages = await connection.fetch(CONSUME, *GROUP)
            # what is written here happens exactly once for each of these messages
        print(f"committed: {len(messages)} messages")
    for each in messages:
        payload = each["payload"]
        content = payload["text"] if payload is not None else each["body"].hex()
        print(each["log_offset"], "-" if each["key"] is None else each["key"], content)
    print(f"left: {len(await pool.fetch(CONSUME, *GROUP))} messages")

    await pool.execute(ENQUEUE, "mail", {"to": "ada"}, None)
    await pool.execute(ENQUEUE, "mail", {"to": "bob"}, timedelta(hours=2))
    job = await pool.fetchrow("select * from pgq.claim_job(queue => $1)", "mail")
    print(f"claimed: {job['payload']['to']}, attempt {job['attempt']}")
    for name in ("ack", "stale ack"):
        done = await pool.fetchval("select pgq.ack($1, $2)", job["job_id"], job["lease_token"])
        print(f"{name}: {'true' if done else 'false'}")

    try:
        await pool.execute(PUBLISH, "nowhere", {}, None, None)
    except asyncpg.PostgresError as error:
        if error.sqlstate != "MQ001":
            raise
        print("unknown topic:", error.sqlstate)


GROUP = ("orders", "billing")


async def main() -> None:
    # statement_cache_size=0: only behind a pooler in transaction mode
    async with asyncpg.create_pool(
        os.environ["DATABASE_URL"], min_size=1, max_size=2, init=prepare, statement_cache_size=0
    ) as pool:
        await tour(pool)


asyncio.run(main())
