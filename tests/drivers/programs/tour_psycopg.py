"""Psycopg 3."""

import os
from datetime import timedelta

import psycopg
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

# prepare_threshold=None: only behind a pooler in transaction mode
connection = psycopg.connect(
    os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=None, row_factory=namedtuple_row
)
run = connection.execute

run("select pgq.create_topic(topic => %s, partitions => %s)", ["orders", 1])
run("select pgq.create_group(topic => %s, consumer_group => %s)", ["orders", "billing"])
run("select pgq.create_queue(queue => %s)", ["mail"])

PUBLISH = (
    "select * from pgq.publish(topic => %(topic)s, payload => %(payload)s, key => %(key)s,"
    " body => %(body)s)"
)
# A value for jsonb is wrapped in Jsonb. An argument that is None takes its default.
message = {"topic": "orders", "payload": Jsonb({"text": "Grüße, 東京 🐘"}), "key": "ada"}
row = run(PUBLISH, {**message, "body": None}).fetchone()
print(f"published: offset {row.log_offset}")

texts = ["two", "three", "four"]
rows = run(
    "select * from pgq.publish_batch(topic => %s, payloads => %s, keys => %s)",
    ["orders", [Jsonb({"text": text}) for text in texts], ["ada", None, "bob"]],
).fetchall()
for row in rows:  # one for each partition
    print(f"batch: offsets {row.first_offset} to {row.last_offset}")

message = {"topic": "orders", "payload": None, "key": None, "body": b"\x00\xffA"}
row = run(PUBLISH, message).fetchone()
print(f"bytes: offset {row.log_offset}")

CONSUME = "select * from pgq.consume(topic => %s, consumer_group => %s)"
with connection.transaction(force_rollback=True):
    messages = run(CONSUME, ["orders", "billing"]).fetchall()
print(f"rolled back: {len(messages)} messages")

with connection.transaction():
    messages = run(CONSUME, ["orders", "billing"]).fetchall()
    # what is written here happens exactly once for each of these messages
print(f"committed: {len(messages)} messages")
for each in messages:
    content = each.payload["text"] if each.payload is not None else each.body.hex()
    print(each.log_offset, "-" if each.key is None else each.key, content)
print(f"left: {len(run(CONSUME, ['orders', 'billing']).fetchall())} messages")

ENQUEUE = "select * from pgq.enqueue(queue => %s, payload => %s, delay => %s)"
run(ENQUEUE, ["mail", Jsonb({"to": "ada"}), None])
run(ENQUEUE, ["mail", Jsonb({"to": "bob"}), timedelta(hours=2)])

# In autocommit the claim is committed before the work begins.
job = run("select * from pgq.claim_job(queue => %s)", ["mail"]).fetchone()
print(f"claimed: {job.payload['to']}, attempt {job.attempt}")
for name in ("ack", "stale ack"):
    (done,) = run("select pgq.ack(%s, %s)", [job.job_id, job.lease_token]).fetchone()
    print(f"{name}: {'true' if done else 'false'}")

try:
    run(PUBLISH, {**message, "topic": "nowhere"})
except psycopg.Error as error:
    if error.sqlstate != "MQ001":
        raise
    print("unknown topic:", error.sqlstate)
