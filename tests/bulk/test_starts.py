"""Chunks that tell where their contents begin are stored as they are, to the same effect."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import psycopg
import pytest

from bulk_support import MODES, begin, contents_of, new_topic, numbers, pack, stage
from pgq import Client

CONTENTS = [b"one", b"", b"three", b"\x00\xff"]


def starts_of(lengths: list[int]) -> list[int]:
    return [1, *(1 + end for end in accumulate(lengths))][: len(lengths)]


def write(client: Client, write_id: Any, contents: list[bytes], **more: Any) -> bool:
    return stage(client, write_id, contents, starts=starts_of(pack(contents)[1]), **more)


@MODES
def test_contents_arrive_as_they_were(client: Client, atomic: bool) -> None:
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=atomic)
    assert write(client, write_id, CONTENTS, headers=[{"n": 1}, None, None, {"n": 4}])
    assert client.commit_write(write_id).messages == 4
    assert contents_of(client, topic) == {0: CONTENTS}
    assert [m.headers for m in client.fetch_range(topic, 0, 1, 4)] == [
        {"n": 1},
        None,
        None,
        {"n": 4},
    ]


@MODES
def test_chunks_follow_each_other_without_gaps(client: Client, atomic: bool) -> None:
    topic = new_topic(client)
    client.publish(topic, body=b"before")
    write_id = begin(client, topic=topic, atomic=atomic)
    for chunk in range(3):
        write(
            client, write_id, numbers(chunk * 5, chunk * 5 + 4), chunk=chunk, last_chunk=chunk == 2
        )
    client.commit_write(write_id)
    client.publish(topic, body=b"after")
    messages = client.fetch_range(topic, 0, 1, 17)
    assert [message.body for message in messages] == [b"before", *numbers(0, 14), b"after"]
    times = [message.published_at for message in messages]
    assert times == sorted(times)


def test_a_named_partition_and_keys(client: Client) -> None:
    topic = new_topic(client, partitions=3)
    write_id = begin(client, topic=topic)
    write(client, write_id, numbers(1, 3), keys=["a", None, "c"], partition=2)
    # without a partition the key decides, so the contents are taken apart
    write(client, write_id, numbers(4, 60), keys=[str(n) for n in range(57)], task=1)
    client.commit_write(write_id)
    found = contents_of(client, topic)
    assert found[2][:3] == numbers(1, 3)
    assert sorted(found) == [0, 1, 2]
    assert sum(len(bodies) for bodies in found.values()) == 60


def test_a_chunk_that_comes_again_is_left_out(client: Client) -> None:
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=False)
    assert write(client, write_id, CONTENTS)
    assert not write(client, write_id, CONTENTS)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="other contents"):
        write(client, write_id, CONTENTS[::-1])
    assert contents_of(client, topic) == {0: CONTENTS}


def test_a_chunk_of_an_attempt_that_comes_again_is_left_out(client: Client) -> None:
    topic = new_topic(client)
    write_id = begin(client, topic=topic)
    assert write(client, write_id, CONTENTS)
    assert not write(client, write_id, CONTENTS)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="other contents"):
        write(client, write_id, CONTENTS[::-1])
    assert client.commit_write(write_id).messages == 4


@MODES
@pytest.mark.parametrize(
    ("lengths", "starts", "code"),
    [
        ([1, 2], [1], "22023"),
        ([1, 2], [2, 3], "22023"),
        ([1, 2], [1, 3], "22023"),
        ([1, 1], [1, 2], "22023"),
        ([4, -1], [1, 5], "22004"),
        ([1, None], [1, 2], "22004"),
        ([1, 2], [1, None], "22004"),
        ([], [], "22023"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    client: Client, atomic: bool, lengths: list[Any], starts: list[Any], code: str
) -> None:
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=atomic)
    with pytest.raises(psycopg.Error) as caught:
        client.write_chunk(
            write_id, 0, "a", 0, lengths, starts=starts, last_chunk=True, packed_bodies=b"abc"
        )
    assert caught.value.sqlstate == code
    assert client.commit_write(write_id).messages == 0
    assert contents_of(client, topic) == {}


@pytest.mark.parametrize("more", [{"keys": ["a"], "partition": 0}, {"headers": [{}]}])
def test_arrays_of_another_length_are_refused(client: Client, more: dict[str, Any]) -> None:
    topic = new_topic(client)
    for atomic in (True, False):
        write_id = begin(client, topic=topic, atomic=atomic)
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="same length"):
            write(client, write_id, CONTENTS, **more)


def test_headers_that_are_no_object_are_refused(client: Client) -> None:
    topic = new_topic(client)
    write_id = begin(client, topic=topic)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="objects"):
        client.connection.execute(
            "select pgq.write_chunk(%s, 0, 'a', 0, '{1}', starts => '{1}', headers => '{1}',"
            " last_chunk => true, packed_bodies => 'x')",
            [write_id],
        )


def test_json_and_jobs_take_no_notice(client: Client) -> None:
    topic = new_topic(client)
    write_id = begin(client, topic=topic)
    write(client, write_id, [b"1", b"{}"], json=True)
    client.commit_write(write_id)
    assert contents_of(client, topic) == {0: [1, {}]}
