"""Groups of one topic do not meet, and members of one group stand aside for each other."""

from __future__ import annotations

import pytest

from support.log import offsets
from support.session import Connect


@pytest.mark.parametrize("function", ["consume", "claim_offsets", "poll"])
def test_a_claim_locks_the_row_of_its_own_group(connect: Connect, function: str) -> None:
    """A second member of the group finds nothing and does not wait; the other group reads on."""
    log, first, second = (connect(autocommit=True) for _ in range(3))
    log.create_topic(topic="t", partitions=1)
    groups = [f"group-{number}" for number in range(4)]
    for group in groups:
        log.create_group(topic="t", consumer_group=group)
    log.publish_batch(topic="t", payloads=[1, 2, 3])
    second.execute("set lock_timeout = '1s'")
    for group in reversed(groups):
        first.execute("begin")
        first.call(function, topic="t", consumer_group=group, max_messages=1)
        assert list(second.call(function, topic="t", consumer_group=group)) == []
        for other in groups:
            if other != group:
                assert offsets(second.fetch(topic="t", consumer_group=other)) == [1, 2, 3]
                second.execute("begin")
                assert list(second.call(function, topic="t", consumer_group=other))
                second.execute("rollback")
        first.execute("rollback")
