"""publish and enqueue: what is stored, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pgq import Client
from support.command import Run
from support.session import Session


@pytest.fixture
def orders(client: Client) -> Client:
    client.admin.create_topic("orders", partitions=1)
    return client


def stored(client: Client) -> list[Any]:
    """The messages of the topic, in order."""
    last = client.bulk.list_offsets("orders")[0].last_offset
    return client.bulk.fetch_range("orders", 0, 1, last) if last else []


def payloads(client: Client) -> list[Any]:
    return [message.payload for message in stored(client)]


def test_one_message(pgq: Run, orders: Client) -> None:
    done = pgq(
        "publish", "orders", '{"a": 1}', "--key", "k", "--header", "n=1", "--header", "t=x y"
    )
    assert done.out == "orders, partition 0, offset 1\n"
    again = ["publish", "orders", "null", "--idempotency-key", "i", "--json"]
    assert pgq(*again).json == {"partition": 0, "log_offset": 2, "duplicate": False}
    assert pgq(*again).json["duplicate"] is True
    assert pgq("publish", "orders", "no JSON", "--text").status == 0
    first, second, third = stored(orders)
    assert (first.payload, first.key, first.headers) == ({"a": 1}, "k", {"n": 1, "t": "x y"})
    assert (second.payload, third.payload) == (None, "no JSON")
    refused = pgq("publish", "orders", "no JSON")
    assert refused.status == 2
    assert "HINT: --text" in refused.err
    assert pgq("publish", "orders", "NaN").status == 2
    assert len(stored(orders)) == 3


def test_json_lines(pgq: Run, orders: Client) -> None:
    lines = [
        '{"payload": {"n": 1}, "key": "a", "headers": {"h": [1]}}',
        "",
        '{"key": null, "payload": null}',
        '{"body": "\\\\x00ff", "idempotency_key": "i"}',
        '{"payload": "again", "idempotency_key": "i"}',
        '{"body": "text"}',
    ]
    done = pgq("publish", "orders", "--json", "--key", "usual", given="\n".join(lines))
    assert done.status == 0, done.err
    assert done.json == {"stored": 4, "duplicates": 1, "stored_up_to_line": 6, "bad_lines": []}
    assert [(m.payload, m.body, m.key, m.headers) for m in stored(orders)] == [
        ({"n": 1}, None, "a", {"h": [1]}),
        (None, None, "usual", None),
        (None, b"\x00\xff", "usual", None),
        (None, b"text", "usual", None),
    ]


def test_numbers_keep_their_digits(pgq: Run, orders: Client, connection: Session) -> None:
    number = "12345678901234567890.123456789012345678901234567890"
    pgq("publish", "orders", f'{{"n": {number}}}')
    pgq("publish", "orders", given=f'{{"payload": {{"n": {number}}}}}\n')
    pgq("publish", "orders", "--format", "values", given=f'{{"n": {number}}}\n')
    told = connection.execute("select (payload ->> 'n') from pgq.messages").fetchall()
    assert told == [(number,)] * 3
    assert pgq("tail", "orders", "--payloads").lines == [f'{{"n": {number}}}'] * 3
    copied = pgq("tail", "orders", "--json").out
    assert copied.count(number) == 3
    assert pgq("publish", "orders", given=copied).status == 0
    told = connection.execute("select (payload ->> 'n') from pgq.messages").fetchall()
    assert told == [(number,)] * 6


BAD = {
    "not JSON": ("jsonl", '{"payload": 1', "not JSON"),
    "no object": ("jsonl", "[1]", "not an object"),
    "no content": ("jsonl", '{"key": "k"}', "one of payload and body"),
    "both": ("jsonl", '{"payload": 1, "body": "x"}', "one of payload and body"),
    "unknown field": ("jsonl", '{"payload": 1, "keyy": "k"}', "unknown field keyy"),
    "key": ("jsonl", '{"payload": 1, "key": 5}', "key is not a text"),
    "headers": ("jsonl", '{"payload": 1, "headers": [1]}', "headers is not an object"),
    "infinity": ("values", "Infinity", "not JSON"),
    "no UTF-8": ("values", b'"\xff"', "UTF-8"),
    "refused by the database": ("values", r'"\u0000"', r"\u0000"),
    "half a pair": ("values", r'"\ud800"', "Unicode"),
}


@pytest.mark.parametrize(
    ("why", "batch"),
    [
        *((why, "2") for why in BAD),
        *((why, batch) for why in ("not JSON", "half a pair") for batch in ("1", "500")),
    ],
)
def test_a_bad_line_ends_it_and_says_what_is_stored(
    pgq: Run, orders: Client, why: str, batch: str
) -> None:
    form, bad, told = BAD[why]
    good = '{{"payload": {}}}' if form == "jsonl" else "{}"
    lines: list[str | bytes] = [good.format(n) for n in range(1, 6)]
    lines.insert(3, bad)
    given = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    options = ["publish", "orders", "--format", form, "--batch", batch]
    done = pgq(*options, given=given)
    assert done.status == 1
    assert done.out == 'stored 3 in topic "orders"\n'
    assert done.err.startswith("pgq: line 4: ")
    assert told in done.err
    assert done.err.endswith("; lines up to 3 are stored, none after it\n")
    assert payloads(orders) == [1, 2, 3]

    left = pgq(*options, "--skip-bad", "--json", given=given)
    assert left.status == 1
    assert left.err.startswith("pgq: line 4 left out: ")
    [one] = left.json.pop("bad_lines")
    assert (one["line"], told in one["reason"]) == (4, True)
    assert left.json == {
        "stored": 5,
        "duplicates": 0,
        "stored_up_to_line": 6,
        "bad_lines": [one],
    }
    assert payloads(orders) == [1, 2, 3, 1, 2, 3, 4, 5]

    none = pgq(*options, "--all-or-none", given=given)
    assert none.status == 1
    assert none.err.endswith("; nothing was stored\n")
    assert len(payloads(orders)) == 8


def test_csv(pgq: Run, orders: Client, tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_bytes('\ufeffid,name\n7,"Ada\nLovelace"\n8,Grüße\n'.encode())
    assert pgq("publish", "orders", "--file", str(table), "--key-column", "id").status == 0
    assert [(m.key, m.payload) for m in stored(orders)] == [
        ("7", {"id": "7", "name": "Ada\nLovelace"}),
        ("8", {"id": "8", "name": "Grüße"}),
    ]
    table.write_text('payload,key,headers\n{"a":1},k,\n,x,{}\n2,,"{""h"": 1}"\n3,4\n')
    done = pgq("publish", "orders", "--file", str(table), "--skip-bad", "--json")
    assert [one["line"] for one in done.json["bad_lines"]] == [3, 5]
    assert [(m.payload, m.key, m.headers) for m in stored(orders)][2:] == [
        ({"a": 1}, "k", None),
        (2, None, {"h": 1}),
    ]
    table.write_bytes(b"a,b\n1,2\n\xff,3\n")
    bad = pgq("publish", "orders", "--file", str(table))
    assert bad.err.startswith("pgq: line 3: not text in UTF-8; lines up to 2 are stored")
    for text, told in (("a,a\n1,2\n", "one name"), ("b\n1\n", "no column a")):
        table.write_text(text)
        done = pgq("publish", "orders", "--file", str(table), "--key-column", "a")
        assert (done.status, told in done.err) == (1, True)


def test_bodies(pgq: Run, orders: Client, tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(bytes(range(256)))
    done = pgq("publish", "orders", "--format", "raw", "--file", str(photo), "--key", "p")
    assert done.status == 0, done.err
    assert pgq("publish", "orders", "--format", "lines", given=b"one\r\n\nthree").status == 0
    assert [m.body for m in stored(orders)] == [bytes(range(256)), b"one", b"", b"three"]


def test_what_cannot_be_read(pgq: Run, orders: Client, tmp_path: Path) -> None:
    gone = pgq("publish", "orders", "--file", str(tmp_path / "none.csv"))
    assert gone.err == f"pgq: {tmp_path / 'none.csv'}: No such file or directory\n"
    both = pgq("publish", "orders", "1", "--file", "x")
    assert "exclude each other" in both.err
    assert pgq("publish", "orders", given="").out == 'stored 0 in topic "orders"\n'


def test_enqueue(pgq: Run, client: Client) -> None:
    client.admin.create_queue("mail")
    told = pgq("enqueue", "mail", "1", "--priority", "3", "--label", "l", "--json").json
    assert client.get_job(told["job_id"]).priority == 3  # type: ignore[union-attr]
    assert pgq("enqueue", "mail", "1", "--unique-key", "u").out.startswith("job ")
    assert pgq("enqueue", "mail", "1", "--unique-key", "u").out.endswith("enqueued before\n")
    lines = [
        {"payload": 1, "label": "own", "unique_key": "v"},
        {"payload": 2, "key": "k"},
        {"payload": 3, "unique_key": "v"},
    ]
    given = "\n".join(map(json.dumps, lines))
    done = pgq("enqueue", "mail", "--delay", "1h", "--label", "usual", "--json", given=given)
    assert done.json == {"stored": 2, "duplicates": 1, "stored_up_to_line": 3, "bad_lines": []}
    later = client.jobs.peek_jobs("mail", state="delayed")
    assert [(job.payload, job.label, job.key) for job in later] == [
        (1, "own", None),
        (2, "usual", "k"),
    ]


def test_a_full_queue(pgq: Run, client: Client) -> None:
    client.admin.create_queue("mail", max_unfinished=5)
    given = "\n".join(str(n) for n in range(9))
    done = pgq("enqueue", "mail", "--format", "values", "--batch", "2", given=given)
    assert done.status == 1
    assert done.out == 'stored 4 in queue "mail"\n'
    assert done.err.endswith("; lines up to 4 are stored, none after it\n")
    assert client.monitor.queue_stats("mail")[0].ready == 4
