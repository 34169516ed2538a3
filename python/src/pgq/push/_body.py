"""What a request carries: the messages as JSON, their name, and the signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from pgq.messages import LeasedMessage
from pgq.push._config import Push

__all__ = ["batch_id", "encode", "request_headers"]


def encode(push: Push, messages: Sequence[LeasedMessage]) -> bytes:
    """The body of a request for messages of one partition.

    Payloads and headers are JSON texts here, and go into it as they came from the database: no
    number loses a digit.
    """
    lines = b",".join(map(_encode_message, messages))
    head = {
        "topic": push.topic,
        "consumer_group": push.consumer_group,
        "partition": messages[0].partition,
    }
    return b'%s,"messages":[%s]}' % (_dump(head)[:-1], lines)


def _encode_message(message: LeasedMessage) -> bytes:
    fields = {
        "log_offset": message.log_offset,
        "published_at": _time(message.published_at),
        "key": message.key,
    }
    headers: Any = message.headers
    content: Any = message.payload
    name = b"payload"
    if message.body is not None:
        name, content = b"body", _dump(base64.b64encode(message.body).decode("ascii"))
    return b'%s,"headers":%s,"%s":%s}' % (_dump(fields)[:-1], headers or b"null", name, content)


def batch_id(push: Push, messages: Sequence[LeasedMessage]) -> str:
    """The name of a batch: the same whoever sends these messages, and how often."""
    first, last = messages[0], messages[-1]
    named = [
        push.topic,
        push.consumer_group,
        first.partition,
        first.log_offset,
        last.log_offset,
        # a topic that was dropped and made again has the same offsets
        _time(first.published_at),
        _time(last.published_at),
    ]
    return "msg_" + hashlib.sha256(_dump(named)).hexdigest()[:32]


def request_headers(push: Push, name: str, body: bytes, now: datetime) -> dict[str, str]:
    """The headers of one attempt, those of the Standard Webhooks among them."""
    headers = {
        "content-type": "application/json",
        "webhook-id": name,
        "webhook-timestamp": str(int(now.timestamp())),
    }
    if push.secrets:
        signed = b"%s.%s." % (name.encode(), headers["webhook-timestamp"].encode()) + body
        headers["webhook-signature"] = " ".join(_sign(key, signed) for key in push.secrets)
    return headers


def _sign(key: bytes, signed: bytes) -> str:
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode("ascii")


def _time(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds")


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
