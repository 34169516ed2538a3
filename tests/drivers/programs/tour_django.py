"""Django on psycopg 3; a program of its own, so it brings its settings."""

import json
import os
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError, connection, transaction

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"],
            "USER": os.environ["PGUSER"],
            "NAME": os.environ["PGDATABASE"],
            "DISABLE_SERVER_SIDE_CURSORS": True,  # only behind a pooler in transaction mode
        }
    }
)


def run(query: str, *parameters: object) -> list[tuple]:
    # cursor.callproc would quote "pgq.publish" as one name
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchall()


# JSON goes in as text with a cast, and comes out as text: Django leaves it to its JSONField.
PUBLISH = (
    "select log_offset from pgq.publish(topic => %s, payload => %s::jsonb, key => %s, body => %s)"
)
BATCH = (
    "select first_offset, last_offset from pgq.publish_batch("
    "topic => %s, payloads => %s::jsonb[], keys => %s::text[])"
)
CONSUME = (
    "select log_offset, key, payload, body from pgq.consume(topic => %s, consumer_group => %s)"
)
ENQUEUE = "select job_id from pgq.enqueue(queue => %s, payload => %s::jsonb, delay => %s)"
GROUP = ("orders", "billing")

run("select pgq.create_topic(topic => %s, partitions => %s)", "orders", 1)
run("select pgq.create_group(topic => %s, consumer_group => %s)", *GROUP)
run("select pgq.create_queue(queue => %s)", "mail")

((log_offset,),) = run(PUBLISH, "orders", json.dumps({"text": "Grüße, 東京 🐘"}), "ada", None)
print(f"published: offset {log_offset}")
payloads = [json.dumps({"text": text}) for text in ("two", "three", "four")]
rows = run(BATCH, "orders", payloads, ["ada", None, "bob"])
for first, last in rows:  # one for each partition
    print(f"batch: offsets {first} to {last}")
((log_offset,),) = run(PUBLISH, "orders", None, None, b"\x00\xffA")
print(f"bytes: offset {log_offset}")

with transaction.atomic():
    messages = run(CONSUME, *GROUP)
    transaction.set_rollback(True)
print(f"rolled back: {len(messages)} messages")

with transaction.atomic():
    messages = run(CONSUME, *GROUP)
    # what your models write here happens exactly once for each of these messages
print(f"committed: {len(messages)} messages")
for log_offset, key, payload, body in messages:
    content = json.loads(payload)["text"] if payload is not None else bytes(body).hex()
    print(log_offset, "-" if key is None else key, content)
print(f"left: {len(run(CONSUME, *GROUP))} messages")

run(ENQUEUE, "mail", json.dumps({"to": "ada"}), None)
run(ENQUEUE, "mail", json.dumps({"to": "bob"}), timedelta(hours=2))
# Outside of atomic each statement commits, and the claim with it, before the work begins.
((job_id, lease_token, attempt, payload),) = run(
    "select job_id, lease_token, attempt, payload from pgq.claim_job(queue => %s)", "mail"
)
print(f"claimed: {json.loads(payload)['to']}, attempt {attempt}")
for name in ("ack", "stale ack"):
    ((done,),) = run("select pgq.ack(%s, %s)", job_id, lease_token)
    print(f"{name}: {'true' if done else 'false'}")

with transaction.atomic():
    try:
        # An atomic of its own: without it the outer one could do nothing after the error.
        with transaction.atomic():
            run(PUBLISH, "nowhere", "{}", None, None)
    except DatabaseError as error:
        if error.__cause__.sqlstate != "MQ001":
            raise
        print("unknown topic:", error.__cause__.sqlstate)
