"""Publishing to a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgq._async._calling import Calling
from pgq.messages import PublishBatchResult, PublishResult

__all__ = ["Publishing"]


class Publishing(Calling):
    """Publishing to a topic."""

    async def publish(
        self,
        topic: str,
        payload: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        partition: int | None = None,
        idempotency_key: str | None = None,
        body: bytes | None = None,
    ) -> PublishResult:
        """Append one message and return where it stands.

        Messages of one `key` go to one partition and keep their order. Without a key, and without
        a named partition, any partition that is free takes it. The partition stays locked until
        the transaction ends, so publish late in a long one. In a deferred topic nothing is locked,
        and `log_offset` is None.

        With an `idempotency_key` that was given before, within the topic's window, nothing is
        written: the result says where the first message stands, and `duplicate` is True.
        """
        return await self._row(
            PublishResult,
            "publish",
            topic=topic,
            payload=payload,
            key=key,
            headers=headers,
            partition=partition,
            idempotency_key=idempotency_key,
            body=body,
        )

    async def publish_batch(
        self,
        topic: str,
        payloads: Sequence[Any] | None = None,
        *,
        keys: Sequence[str | None] | None = None,
        headers: Sequence[Mapping[str, Any] | None] | None = None,
        partition: int | None = None,
        idempotency_keys: Sequence[str | None] | None = None,
        bodies: Sequence[bytes] | None = None,
    ) -> list[PublishBatchResult]:
        """Append many messages; all are stored or none.

        Lists given beside each other have the same length. Returns the offsets in each partition
        written to: within it the messages stand in the order of the lists. Messages whose
        idempotency key was given before are not written; results with `duplicate` say where they
        stand.
        """
        return await self._rows(
            PublishBatchResult,
            "publish_batch",
            topic=topic,
            payloads=payloads,
            keys=keys,
            headers=headers,
            partition=partition,
            idempotency_keys=idempotency_keys,
            bodies=bodies,
        )
