"""Chunks that tell where their contents begin are stored as they are, to the same effect."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import psycopg
import pytest

from support.bulk import MODES, begin, contents_of, numbers, pack, stage
from support.log import new_topic
from support.session import Session

CONTENTS = [b"one", b"", b"three", b"\x00\xff"]


def starts_of(lengths: list[int]) -> list[int]:
    return [1, *(1 + end for end in accumulate(lengths))][: len(lengths)]


def write(connection: Session, write_id: Any, contents: list[bytes], **more: Any) -> bool:
    return stage(connection, write_id, contents, starts=starts_of(pack(contents)[1]), **more)


@MODES
def test_contents_arrive_as_they_were(connection: Session, atomic: bool) -> None:
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    assert write(connection, write_id, CONTENTS, headers=[{"n": 1}, None, None, {"n": 4}])
    assert connection.commit_write(write_id=write_id).messages == 4
    assert contents_of(connection, topic) == {0: CONTENTS}
    assert [
        m.headers
        for m in connection.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=4)
    ] == [
        {"n": 1},
        None,
        None,
        {"n": 4},
    ]


@MODES
def test_chunks_follow_each_other_without_gaps(connection: Session, atomic: bool) -> None:
    topic = new_topic(connection)
    connection.publish(topic=topic, body=b"before")
    write_id = begin(connection, topic=topic, atomic=atomic)
    for chunk in range(3):
        write(
            connection,
            write_id,
            numbers(chunk * 5, chunk * 5 + 4),
            chunk=chunk,
            last_chunk=chunk == 2,
        )
    connection.commit_write(write_id=write_id)
    connection.publish(topic=topic, body=b"after")
    messages = connection.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=17)
    assert [message.body for message in messages] == [b"before", *numbers(0, 14), b"after"]
    times = [message.published_at for message in messages]
    assert times == sorted(times)


def test_a_named_partition_and_keys(connection: Session) -> None:
    topic = new_topic(connection, partitions=3)
    write_id = begin(connection, topic=topic)
    write(connection, write_id, numbers(1, 3), keys=["a", None, "c"], partition=2)
    # without a partition the key decides, so the contents are taken apart
    write(connection, write_id, numbers(4, 60), keys=[str(n) for n in range(57)], task=1)
    connection.commit_write(write_id=write_id)
    found = contents_of(connection, topic)
    assert found[2][:3] == numbers(1, 3)
    assert sorted(found) == [0, 1, 2]
    assert sum(len(bodies) for bodies in found.values()) == 60


def test_a_chunk_that_comes_again_is_left_out(connection: Session) -> None:
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=False)
    assert write(connection, write_id, CONTENTS)
    assert not write(connection, write_id, CONTENTS)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="other contents"):
        write(connection, write_id, CONTENTS[::-1])
    assert contents_of(connection, topic) == {0: CONTENTS}


def test_a_chunk_of_an_attempt_that_comes_again_is_left_out(connection: Session) -> None:
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    assert write(connection, write_id, CONTENTS)
    assert not write(connection, write_id, CONTENTS)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="other contents"):
        write(connection, write_id, CONTENTS[::-1])
    assert connection.commit_write(write_id=write_id).messages == 4


@MODES
@pytest.mark.parametrize(
    ("lengths", "starts", "code"),
    [
        ([1, 2], [1], "22023"),
        ([1, 2], [2, 3], "22023"),
        ([1, 2], [1, 3], "22023"),
        ([1, 1], [1, 2], "22023"),
        ([4, -1], [1, 5], "22023"),
        ([1, None], [1, 2], "22004"),
        ([1, 2], [1, None], "22004"),
        ([], [], "22023"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    connection: Session, atomic: bool, lengths: list[Any], starts: list[Any], code: str
) -> None:
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    with pytest.raises(psycopg.Error) as caught:
        connection.write_chunk(
            write_id=write_id,
            task=0,
            task_attempt="a",
            chunk=0,
            lengths=lengths,
            starts=starts,
            last_chunk=True,
            packed_bodies=b"abc",
        )
    assert caught.value.sqlstate == code
    assert connection.commit_write(write_id=write_id).messages == 0
    assert contents_of(connection, topic) == {}


@pytest.mark.parametrize("more", [{"keys": ["a"], "partition": 0}, {"headers": [{}]}])
def test_arrays_of_another_length_are_refused(connection: Session, more: dict[str, Any]) -> None:
    topic = new_topic(connection)
    for atomic in (True, False):
        write_id = begin(connection, topic=topic, atomic=atomic)
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="same length"):
            write(connection, write_id, CONTENTS, **more)


def test_headers_that_are_no_object_are_refused(connection: Session) -> None:
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="objects"):
        connection.execute(
            "select pgq.write_chunk(%s, 0, 'a', 0, '{1}', starts => '{1}', headers => '{1}',"
            " last_chunk => true, packed_bodies => 'x')",
            [write_id],
        )


def test_json_and_jobs_take_no_notice(connection: Session) -> None:
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    write(connection, write_id, [b"1", b"{}"], json=True)
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: [1, {}]}


@pytest.mark.parametrize("atomic", [True, False])
def test_arrays_that_do_not_begin_at_one(connection: Session, atomic: bool) -> None:
    """Each message has its own key and content all the same."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    connection.execute(
        "select pgq.write_chunk(write_id => %s, task => 0, task_attempt => 'a', chunk => 1,"
        " lengths => '[0:1]={1,2}', keys => '[5:6]={a,b}', starts => '[3:4]={1,2}',"
        " packed_bodies => 'xyy', last_chunk => true)",
        [write_id],
    )
    connection.commit_write(write_id=write_id)
    assert connection.execute(
        "select key, body from pgq.messages where topic = %s order by log_offset", [topic]
    ).fetchall() == [("a", b"x"), ("b", b"yy")]
