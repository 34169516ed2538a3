"""Which messages a subscription takes: by values of headers, and by patterns of AMQP."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from support.session import Connect, Session, new_name, refused, row
from support.subscription import delivered, new_followed_topic, routing_key_matches

STATUS = {"status": ["processed", "shipped"]}

# a filter, headers, and whether they match
FILTERED: list[tuple[Any, Any, bool]] = [
    (None, None, True),
    (None, {"a": "1"}, True),
    ({}, None, True),
    ({}, {"a": "1"}, True),
    (STATUS, None, False),
    (STATUS, {}, False),
    (STATUS, {"status": "shipped"}, True),
    (STATUS, {"status": "processed", "more": 1}, True),
    (STATUS, {"status": "new"}, False),
    (STATUS, {"status": "Shipped"}, False),
    (STATUS, {"status": ["shipped"]}, False),
    (STATUS, {"Status": "shipped"}, False),
    ({**STATUS, "area": ["eu"]}, {"status": "shipped"}, False),
    ({**STATUS, "area": ["eu"]}, {"status": "shipped", "area": "eu"}, True),
    ({**STATUS, "area": ["eu"]}, {"status": "shipped", "area": "us"}, False),
    ({"k": []}, {"k": "v"}, False),
    ({"k": []}, None, False),
    ({"k": [""]}, {"k": ""}, True),
    ({"k": [1]}, {"k": 1}, True),
    ({"k": [1]}, {"k": 1.0}, True),
    ({"k": [1]}, {"k": "1"}, False),
    ({"k": ["1"]}, {"k": 1}, False),
    ({"k": [None]}, {"k": None}, True),
    ({"k": [None]}, {}, False),
    ({"k": [True, False]}, {"k": False}, True),
    ({"k": [{"a": 1, "b": 2}]}, {"k": {"b": 2, "a": 1}}, True),
    ({"k": [{"a": 1, "b": 2}]}, {"k": {"a": 1}}, False),
    ({"k": [{"a": 1}]}, {"k": {"a": 1, "b": 2}}, False),
    ({"k": [[1, 2]]}, {"k": [1, 2]}, True),
    ({"k": [[1, 2]]}, {"k": [2, 1]}, False),
    ({"k": [1, 2]}, {"k": [1, 2]}, False),
    ({"": ["'"]}, {"": "'"}, True),
]

# a pattern, a routing key, and whether they match
ROUTED: list[tuple[str, str | None, bool]] = [
    ("orders.*.eu", "orders.new.eu", True),
    ("orders.*.eu", "orders.eu", False),
    ("orders.*.eu", "orders.new.old.eu", False),
    ("orders.#", "orders", True),
    ("orders.#", "orders.new", True),
    ("orders.#", "orders.new.eu", True),
    ("orders.#", "ordersnew", False),
    ("orders.#", "order", False),
    ("#", "", True),
    ("#", "a", True),
    ("#", "a.b.c", True),
    ("#", None, False),
    ("*", "", False),
    ("*", "a", True),
    ("*", "a.b", False),
    ("#.a", "a", True),
    ("#.a", "b.a", True),
    ("#.a", "ba", False),
    ("a.#.b", "a.b", True),
    ("a.#.b", "a.x.y.b", True),
    ("a.#.b", "a.b.c", False),
    ("#.#", "", True),
    ("*.#", "", False),
    ("#.*", "a", True),
    ("#.*.#.*", "a", False),
    ("#.*.#.*", "a.b", True),
    ("*.*.#", "a.b.c", True),
    ("a.b", "a.b", True),
    ("a.b", "axb", False),
    ("a*", "ab", False),
    ("a*", "a*", True),
    ("a#.b", "a#.b", True),
    ("A", "a", False),
    ("[a].(b)|c^$+?{1}\\d", "[a].(b)|c^$+?{1}\\d", True),
    ("a.b", "a.b\n", False),
    ("a.*", "a.b\nc", True),
    ("a..b", "a..b", True),
    ("a.*.b", "a..b", True),
    ("a..b", "a.b", False),
    ("grün.*", "grün.ß", True),
]


def _matches(session: Session, filter_: Any, routing_key: str | None, headers: Any) -> bool:
    [found] = row(
        session,
        "select pgq._matches(%s, %s, pgq._routing_regex(%s))",
        [
            None if headers is None else Jsonb(headers),
            None if filter_ is None else Jsonb(filter_),
            routing_key,
        ],
    )
    return bool(found)


@pytest.mark.parametrize("number", [1, 20])
def test_filters(connection: Session, number: int) -> None:
    """Of single messages and of batches."""
    for filter_, headers, expected in FILTERED:
        assert _matches(connection, filter_, None, headers) is expected, (filter_, headers)
    topic, [queue] = new_followed_topic(connection, filter=STATUS)
    taken = [
        n
        for n, (_, headers, _) in enumerate(FILTERED)
        if _matches(connection, STATUS, None, headers)
    ]
    assert len(taken) > 4
    batch = [
        {"payloads": [n] * number, "headers": [h] * number} for n, (_, h, _) in enumerate(FILTERED)
    ]
    for each in batch:
        if number == 1:
            connection.publish(topic=topic, payload=each["payloads"][0], headers=each["headers"][0])
        else:
            connection.publish_batch(topic=topic, **each)
    assert delivered(connection, queue) == [n for n in taken for _ in range(number)]


def test_some_of_a_batch(connection: Session) -> None:
    """Those that match, and no others, wherever they stand."""
    topic, [queue] = new_followed_topic(connection, filter={"h": ["v"]})
    wanted = [n for n in range(450) if n in (0, 7, 99, 100, 199, 449) or 205 <= n < 310]
    connection.publish_batch(
        topic=topic,
        payloads=list(range(450)),
        headers=[{"h": "v"} if n in wanted else {"h": "w"} for n in range(450)],
    )
    assert delivered(connection, queue) == wanted


def test_routing_keys(connection: Session) -> None:
    for pattern, key, expected in ROUTED:
        headers = None if key is None else {"routing_key": key}
        assert _matches(connection, None, pattern, headers) is expected, (pattern, key)
    topic, [queue] = new_followed_topic(
        connection, routing_key="orders.*.eu", filter={"status": ["new"]}
    )
    keys = ["orders.1.eu", "orders.eu", "orders.2.eu", "orders.3.eu"]
    connection.publish_batch(
        topic=topic,
        payloads=[0, 1, 2, 3],
        headers=[
            {"routing_key": key, "status": "old" if n == 2 else "new"} for n, key in enumerate(keys)
        ],
    )
    assert delivered(connection, queue) == [0, 3]


def test_a_session_that_reads_backslashes(connect: Connect) -> None:
    """A pattern means the same where literals have escapes: a dot is a dot, a plus is a plus."""
    legacy = connect(autocommit=True, options="-c standard_conforming_strings=off")
    for pattern, wanted in (("orders.eu", 0), ("a+b.c", 2), ("a\\b.*", 3)):
        topic, [queue] = new_followed_topic(legacy, routing_key=pattern)
        keys = ["orders.eu", "ordersXeu", "a+b.c", "a\\b.c", "aab.c"]
        legacy.publish_batch(
            topic=topic,
            payloads=list(range(5)),
            headers=[{"routing_key": key} for key in keys],
        )
        assert delivered(legacy, queue) == [wanted]


_WORD = st.sampled_from(["a", "b", "ab", "", "*", "#", "a*", ".", "\\", "(", "$"])
_PATTERN = st.lists(st.one_of(st.sampled_from(["*", "#", "a"]), _WORD), min_size=1, max_size=7)
_KEY = st.lists(st.one_of(st.sampled_from(["a", "b"]), _WORD), max_size=7)


@settings(max_examples=300, deadline=None, database=None)
@given(pattern=_PATTERN.map(".".join).filter(bool), keys=st.lists(_KEY.map(".".join), max_size=8))
def test_random_patterns(shared_dsn: str, pattern: str, keys: list[str]) -> None:
    """As an independent matcher says."""
    session = _session(shared_dsn)
    for key in keys:
        found = _matches(session, None, pattern, {"routing_key": key})
        assert found is routing_key_matches(pattern, key)


@cache
def _session(dsn: str) -> Session:
    return Session.connect(dsn, autocommit=True)


@pytest.mark.parametrize("word", ["#", "#.*", "#.a", "#.a.#.*", "*.#.a.#"])
def test_patterns_that_take_long_elsewhere(connection: Session, word: str) -> None:
    """However often # stands in a pattern, and however long the key is."""
    pattern = ".".join([word] * 200)[:255].rstrip(".") or "#"
    connection.execute("set statement_timeout = '10s'")
    for key in ("a." * 20_000 + "b", "a" * 100_000, ".".join("ab" * 20_000)):
        _matches(connection, None, pattern, {"routing_key": key})


@pytest.mark.parametrize(
    "bad",
    [
        {"filter": "[1]"},
        {"filter": "1"},
        {"filter": "null"},
        {"filter": {"a": "b"}},
        {"filter": {"a": ["b"], "c": {"d": []}}},
        {"routing_key": ""},
        {"routing_key": "a" * 256},
        {"routing_key": "é" * 128},
    ],
)
def test_bad_filters(connection: Session, bad: dict[str, Any]) -> None:
    topic, [queue] = new_followed_topic(connection)
    error = refused(
        "22023", connection.subscribe, subscription=new_name("s"), topic=topic, queue=queue, **bad
    )
    assert next(iter(bad)) in str(error)


# filters at the limits, and just beyond them: values of a header, and bytes of the JSON text
MANY = [{"k": list(range(most)), "l": list(range(100))} for most in (100, 101)]
LONG = [
    {"k": ["é" * 2000, "x" * (most - 2 * 2000 - len('{"k": ["", ""]}'))]} for most in (8192, 8193)
]


@pytest.mark.parametrize(("allowed", "refusable"), [MANY, LONG], ids=["values", "bytes"])
def test_the_largest_filter(connection: Session, allowed: Any, refusable: Any) -> None:
    """What a publish compares under the lock of its partition is bounded."""
    topic, [queue] = new_followed_topic(connection, filter=allowed)
    name = new_name("s")
    error = refused(
        "22023",
        connection.subscribe,
        subscription=name,
        topic=topic,
        queue=queue,
        filter=refusable,
    )
    assert error.diag.message_detail
    assert any(number in error.diag.message_detail for number in ("101", "8193"))
    # one from before the limits goes on, also where the application subscribes at each start
    connection.execute(
        "update pgq.subscription set subscription = %s, filter = %s"
        " where queue_id = (select queue_id from pgq.queue where queue = %s)",
        [name, Jsonb(refusable), queue],
    )
    again = {"subscription": name, "topic": topic, "queue": queue}
    connection.subscribe(**again, filter=refusable)
    headers = {"k": refusable["k"][-1], "l": 1}
    connection.publish(topic=topic, payload=1, headers=headers)
    assert delivered(connection, queue) == [1]


def test_the_longest_pattern(connection: Session) -> None:
    topic, [queue] = new_followed_topic(connection, routing_key="a" * 255)
    connection.publish(topic=topic, payload=1, headers={"routing_key": "a" * 255})
    assert delivered(connection, queue) == [1]


@pytest.mark.parametrize("routing_key", [{}, [], ["a"], {"a": 1}, 1, 1.5, True, False, None])
def test_a_routing_key_that_is_no_string(connection: Session, routing_key: Any) -> None:
    """Is none, whatever its text would match."""
    for pattern in ("#", "*", "*.#", str(routing_key).lower()):
        assert not _matches(connection, None, pattern, {"routing_key": routing_key}), pattern
    topic, [queue] = new_followed_topic(connection, routing_key="#")
    connection.publish(topic=topic, payload=1, headers={"routing_key": routing_key})
    connection.publish(topic=topic, payload=2, headers={"routing_key": str(routing_key)})
    assert delivered(connection, queue) == [2]


@pytest.mark.parametrize(
    "headers", [{"routing_key": {}}, {"routing_key": None}, {"routing_key": [1]}, {"status": {}}]
)
def test_headers_that_nobody_expects(connection: Session, headers: Any) -> None:
    """A publish never fails because of a filter."""
    topic, [queue] = new_followed_topic(connection, routing_key="a.#", filter=STATUS)
    connection.publish(topic=topic, payload=1, headers=headers)
    connection.publish(topic=topic, payload=1, headers={"routing_key": "x" * 260_000})
    assert delivered(connection, queue) == []
