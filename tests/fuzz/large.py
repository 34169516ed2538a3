"""Contents that are larger than most: they are taken, or refused with a code that is documented."""

from __future__ import annotations

from fuzz.catalog import Catalog
from fuzz.plans import Call, Plan
from fuzz.values import Drawn

__all__ = ["large"]


def large(catalog: Catalog, length: int) -> Plan:
    """Calls with contents of so many bytes, and what reads them."""
    text = f"repeat('x', {length})"
    document = f"('\"' || {text} || '\"')"
    body = f"convert_to({text}, 'UTF8')"
    write = (
        "(select w.write_id from pgq.bulk_write as w where w.topic_id is not null"
        " order by w.bulk_write_id desc limit 1)"
    )

    def call(function: str, **arguments: str) -> Call:
        types = catalog[function].types
        return Call(
            function, tuple((name, types[name], Drawn(sql)) for name, sql in arguments.items())
        )

    most = str(256 * 1024 * 1024)
    chunk = {"task": "0", "task_attempt": "'a'", "chunk": "0", "lengths": f"array[{length}]"}
    return Plan(
        (
            call("alter_topic", topic="'t'", max_message_bytes=most),
            call("alter_queue", queue="'q'", max_message_bytes=most),
            call("publish", topic="'t'", payload=document),
            call("enqueue", queue="'q'", body=body),
            call("write_chunk", write_id=write, packed_bodies=body, last_chunk="true", **chunk),
            call("commit_write", write_id=write),
            call("cleanup"),
        ),
        "read committed",
        committed=False,
        guest=False,
        looked_at=False,
    )
