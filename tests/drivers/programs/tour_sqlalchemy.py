"""SQLAlchemy 2 on psycopg."""

import json
import os
from datetime import timedelta

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

url = make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg")
# prepare_threshold=None: only behind a pooler in transaction mode
engine = create_engine(url, connect_args={"prepare_threshold": None})

# cast(:payload as jsonb): what is written :payload::jsonb is no parameter for SQLAlchemy.
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
group = {"topic": "orders", "g": "billing"}

# engine.begin() commits at its end. engine.connect() rolls back unless commit() is called: the
# offset is returned all the same, and the message is gone.
with engine.begin() as connection:
    run = connection.execute
    run(text("select pgq.create_topic(topic => :topic, partitions => 1)"), group)
    run(text("select pgq.create_group(topic => :topic, consumer_group => :g)"), group)
    run(text("select pgq.create_queue(queue => 'mail')"))

    payload = json.dumps({"text": "Grüße, 東京 🐘"})
    message = {"topic": "orders", "payload": payload, "key": "ada", "body": None}
    print(f"published: offset {run(PUBLISH, message).one().log_offset}")
    payloads = [json.dumps({"text": each}) for each in ("two", "three", "four")]
    batch = {"topic": "orders", "payloads": payloads, "keys": ["ada", None, "bob"]}
    for row in run(BATCH, batch):  # one for each partition
        print(f"batch: offsets {row.first_offset} to {row.last_offset}")
    message = {"topic": "orders", "payload": None, "key": None, "body": b"\x00\xffA"}
    print(f"bytes: offset {run(PUBLISH, message).one().log_offset}")

with engine.connect() as connection:
    messages = connection.execute(CONSUME, group).all()
    connection.rollback()
    print(f"rolled back: {len(messages)} messages")

with engine.begin() as connection:
    messages = connection.execute(CONSUME, group).all()
    # what is written here happens exactly once for each of these messages
print(f"committed: {len(messages)} messages")
for each in messages:
    content = each.payload["text"] if each.payload is not None else each.body.hex()
    print(each.log_offset, "-" if each.key is None else each.key, content)
with engine.begin() as connection:
    print(f"left: {len(connection.execute(CONSUME, group).all())} messages")

with engine.begin() as connection:
    ada, bob = (json.dumps({"to": name}) for name in ("ada", "bob"))
    connection.execute(ENQUEUE, {"queue": "mail", "payload": ada, "delay": None})
    connection.execute(ENQUEUE, {"queue": "mail", "payload": bob, "delay": timedelta(hours=2)})
# The claim is committed before the work begins.
with engine.begin() as connection:
    job = connection.execute(CLAIM, {"queue": "mail"}).one()
print(f"claimed: {job.payload['to']}, attempt {job.attempt}")
for name in ("ack", "stale ack"):
    with engine.begin() as connection:
        lease = {"job_id": job.job_id, "token": job.lease_token}
        done = connection.execute(text("select pgq.ack(:job_id, :token)"), lease).scalar_one()
    print(f"{name}: {'true' if done else 'false'}")

try:
    with engine.begin() as connection:
        connection.execute(PUBLISH, {**message, "topic": "nowhere"})
except DBAPIError as error:
    if error.orig.sqlstate != "MQ001":
        raise
    print("unknown topic:", error.orig.sqlstate)
