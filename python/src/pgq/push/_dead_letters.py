"""What happens to a message that was tried too often.

The one place that knows how: everything it does, it does through functions that the database has.
"""

from __future__ import annotations

import json
from typing import Any

from psycopg.types.json import Jsonb

from pgq import AsyncClient
from pgq.errors import LeaseLost
from pgq.messages import LeasedMessage
from pgq.push._body import batch_id
from pgq.push._config import Push
from pgq.push._lease import Lease

__all__ = ["bury"]


async def bury(
    lease: Lease, push: Push, message: LeasedMessage, *, error: str, attempts: int
) -> None:
    """Publish a message to the dead-letter topic and commit the group past it, both or neither.

    Raises LeaseLost when another worker has the partition.
    """
    topic = push.dead_letter_topic
    assert topic is not None

    async def both(client: AsyncClient) -> None:
        # holds the row of the group, so that nobody takes the partition in between
        if not await lease.extended(client):
            raise LeaseLost("the partition is not leased to this worker any more")
        await client.publish(
            topic,
            None if message.payload is None else Jsonb(message.payload, _as_it_is),
            key=message.key,
            headers=_headers(push, message, error, attempts),
            # for the case that the commit succeeds, but the answer does not arrive
            idempotency_key=batch_id(push, [message]),
            body=message.body,
        )
        await client.commit_offset(
            push.topic,
            push.group,
            lease.partition,
            message.log_offset,
            lease_token=lease.token,
        )

    async with lease.connections.one_by_one:
        # the transaction holds the partition, however long it waits
        lease.committing = True
        try:
            await lease.connections.run(both)
        finally:
            lease.committing = False


def _as_it_is(payload: bytes) -> bytes:
    return payload


def _headers(push: Push, message: LeasedMessage, error: str, attempts: int) -> dict[str, Any]:
    given: Any = message.headers
    return {
        **(json.loads(given) if given else {}),
        "pgq_topic": push.topic,
        "pgq_group": push.group,
        "pgq_partition": message.partition,
        "pgq_offset": message.log_offset,
        "pgq_published_at": message.published_at.isoformat(),
        "pgq_attempts": attempts,
        "pgq_error": error,
    }
