"""What the configuration may say, and how it is told what is wrong."""

from __future__ import annotations

import base64
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

pytest.importorskip("httpx", reason="no httpx: pip install 'pgq-sql[push]'")

from pgq.__main__ import main
from pgq._extras import install
from pgq.push import ConfigError, Push, parse
from pgq.push._delivery import pause_after
from pgq.push._http import Answer, retry_after

KEY = bytes(range(24))
SECRET = "whsec_" + base64.b64encode(KEY).decode()

LEAST = """
[[push]]
topic = "orders"
consumer_group = "billing"
url = "https://hooks.example.com/orders"
"""


def test_the_least() -> None:
    (push,) = parse(LEAST).pushes
    assert (push.topic, push.consumer_group) == ("orders", "billing")
    assert push.name == "orders to billing"
    assert (push.max_messages, push.poll, push.timeout, push.lease) == (100, 1, 30, 30)
    assert (push.max_attempts, push.dead_letter_topic, push.partitions) == (None, None, None)
    assert not push.allow_private


def test_everything() -> None:
    text = LEAST + (
        'name = "n"\npartitions = [0, 2]\nmax_messages = 5\npoll = "200ms"\ntimeout = "1.5s"\n'
        'lease = "2m"\nconcurrency = 3\nbackoff = "1s"\nbackoff_max = "1h"\n'
        'max_retry_after = "1d"\n'
        'max_attempts = 7\ndead_letter_topic = "dead"\nstart = "latest"\nout_of_range = "skip"\n'
        f'headers = {{ X-A = "b" }}\nsecrets = "{SECRET}"\nsecret_env = ["ONE", "TWO"]\n'
        "allow_private = true\n"
    )
    config = parse(
        f'database = "host=db"\ngrace = "1m"\n{text}',
        environment={"ONE": SECRET, "TWO": f"{SECRET} {SECRET}"},
    )
    (push,) = config.pushes
    assert (config.database, config.grace) == ("host=db", 60)
    assert (push.partitions, push.poll, push.timeout) == ((0, 2), 0.2, 1.5)
    assert (push.lease, push.backoff_max, push.max_retry_after) == (120, 3600, 86400)
    assert push.secrets == (KEY,) * 4
    assert push.headers == (("X-A", "b"),)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('poll = "5"', "c.toml:6: [[push]] number 1: poll: must be a duration such as"),
        ("poll = 5", "c.toml:6: [[push]] number 1: poll: must be a duration"),
        ('poll = "0s"', "poll: must be a duration from"),
        ('poll = "-1s"', "poll: must be a duration"),
        ('timeout = "5 parsecs"', "timeout: must be a duration"),
        ("polll = 1", "c.toml:6: [[push]] number 1: polll: unknown; known are"),
        ("max_messages = 0", "max_messages: must be a whole number from 1 to 10000"),
        ("max_messages = true", "max_messages: must be a whole number"),
        ('max_messages = "5"', "max_messages: must be a whole number"),
        ("partitions = []", "partitions: must be a list of partition numbers"),
        ("partitions = [-1]", "partitions: must be a whole number"),
        ("partitions = [1, 1]", "partitions: names a partition twice"),
        ("max_attempts = 0", "max_attempts: must be a whole number"),
        ('dead_letter_topic = "d"', "dead_letter_topic: needs max_attempts beside it"),
        ("max_attempts = 3", "max_attempts: needs dead_letter_topic beside it"),
        ('dead_letter_topic = "orders"\nmax_attempts = 1', "must be another topic"),
        ('backoff_max = "10ms"', "backoff_max: must not be below backoff"),
        ('lease = "999ms"', 'lease: must be at least "1s"'),
        ('start = "middle"', 'start: must be "earliest" or "latest"'),
        ('allow_private = "yes"', "allow_private: must be true or false"),
        ('secrets = ["abc"]', 'secrets: must be secrets of the form "whsec_…"'),
        ('secrets = ["whsec_!"]', 'secrets: has no base64 behind "whsec_"'),
        ('secrets = ["whsec_YWJj"]', "secrets: must be keys of 24 to 64 bytes, this one has 3"),
        ("secrets = []", "secrets: must not be an empty list"),
        ('secret_env = "PGQ_NOT_SET"', "secret_env: the variable PGQ_NOT_SET is not set"),
        ('headers = { Host = "x" }', "headers: the header Host is set by the push worker"),
        ('headers = { Webhook-Id = "x" }', "headers: the header Webhook-Id is set"),
        ('headers = { "a b" = "x" }', "headers: 'a b' is no name of a header"),
        ('headers = { A = "x\\r\\nB: y" }', "headers: the header A must be a text"),
        ("headers = 1", "headers: must be a table"),
        ('ca_file = "/nowhere"', "ca_file: is no file"),
        ("x =", "c.toml: Invalid value (at line 6"),
        ("", ""),
    ],
)
def test_mistakes(line: str, message: str) -> None:
    if not line:
        parse(LEAST)
        return
    with pytest.raises(ConfigError) as raised:
        parse(LEAST + line + "\n", source="c.toml")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://a/", "must begin with http:// or https://"),
        ("file:///etc/passwd", "must begin with"),
        ("//a/", "must begin with"),
        ("http://", "names no host"),
        ("http://user:pass@a/", "must not hold a user or a password"),
        ("http://a:99999/", "Port out of range"),
        ("http://0177.0.0.1/", "is no url: Invalid IPv4 address"),
        ("http://a/#b", "must not have a fragment"),
        ("http://a/ b", "must not hold blanks"),
        ("", "must be a text"),
    ],
)
def test_urls(url: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(f'[[push]]\ntopic = "t"\nconsumer_group = "g"\nurl = "{url}"')
    assert message in str(raised.value)
    assert "pass" not in str(raised.value).replace("a password", "")


@pytest.mark.parametrize("text", ["", "push = []", "push = 1", 'database = "x"', "[push]\na = 1"])
def test_nothing_to_do(text: str) -> None:
    with pytest.raises(ConfigError, match="there is no table"):
        parse(text)


def test_what_is_above_the_tables() -> None:
    with pytest.raises(ConfigError, match=r"^config:1: databse: unknown; known are database"):
        parse(f'databse = "x"\n{LEAST}')
    with pytest.raises(ConfigError, match=r"^config:2: grace: must be a duration"):
        parse(f"\ngrace = 1\n{LEAST}")


@pytest.mark.parametrize("key", ["topic", "consumer_group", "url"])
def test_what_must_be_there(key: str) -> None:
    lines = [line for line in LEAST.splitlines() if not line.startswith(key)]
    with pytest.raises(ConfigError, match=rf"^config:2: \[\[push\]\] number 1: {key}: is missing"):
        parse("\n".join(lines))


def test_two_of_a_kind() -> None:
    parse(LEAST + LEAST.replace("billing", "mail"))
    parse(f"{LEAST}partitions = [0]\n{LEAST}partitions = [1]\n")
    for second in (LEAST, f"{LEAST}partitions = [0]\n"):
        with pytest.raises(ConfigError, match=r"number 2: consumer_group: topic .orders. is sent"):
            parse(LEAST + second)


def test_settings_of_one_group() -> None:
    """It cannot have two of them."""
    one, two = f"{LEAST}partitions = [0]\n", f"{LEAST}partitions = [1]\n"
    more = 'max_attempts = 2\ndead_letter_topic = "dead"\n'
    parse(f"{one}{more}{two}{more}")
    for first, second in ((one, two + more), (one + more, two)):
        with pytest.raises(ConfigError, match=r'number 2: max_attempts: .* group "billing"'):
            parse(first + second)


def test_a_secret_is_never_shown() -> None:
    text = LEAST + f'secrets = ["{SECRET}"]\nheaders = {{ A = "hidden" }}\n'
    config = parse(f'database = "password=hidden"\n{text}')
    assert "hidden" not in repr(config)
    assert repr(KEY) not in repr(config)
    assert "hooks.example.com" not in repr(config)


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "push.toml"
    path.write_text(LEAST)
    assert main(["push", "--config", str(path), "--check"]) == 0
    assert capsys.readouterr().out == f"{path}: 1 to send\n"
    path.write_text(LEAST + "timeout = 1\n")
    assert main(["push", "--config", str(path), "--check"]) == 1
    assert f"pgq: {path}:6: [[push]] number 1: timeout: must be" in capsys.readouterr().err
    assert main(["push", "--config", str(tmp_path / "none.toml"), "--check"]) == 1
    assert "No such file" in capsys.readouterr().err


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "push.toml"
    path.write_text(LEAST)
    program = "import sys; sys.modules['httpx'] = None; from pgq.__main__ import main; "
    done = subprocess.run(
        [sys.executable, "-c", f"{program}sys.exit(main(['push', '--config', {str(path)!r}]))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == f"pgq: the module httpx is missing: {install('push')}\n"


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0),
        (" 120 ", 120),
        ("9" * 400, 999999999999),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("²", None),
        ("Thu, 01 Jan 2026 12:01:00 GMT", 60),
        ("Thursday, 01-Jan-26 12:01:00 GMT", 60),
        ("Thu Jan  1 12:01:00 2026", 60),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0),
        ("Thu, 99 Jan 2026 11:00:00 GMT", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


def test_pauses() -> None:
    push = Push(
        topic="t",
        consumer_group="g",
        url="",
        backoff=1.0,
        backoff_max=5.0,
        max_retry_after=60.0,
    )

    def pause(attempt: int, retry_after: float | None = None) -> float:
        return pause_after(push, attempt, Answer(503, "HTTP 503", retry_after, 0.0))

    for attempt, longest in ((1, 1), (2, 2), (3, 4), (4, 5), (100000, 5)):
        for _ in range(50):
            assert longest / 2 <= pause(attempt) <= longest
    assert len({pause(1) for _ in range(20)}) > 1
    assert pause(9, 3.0) == 3.0
    assert pause(1, timedelta(days=9).total_seconds()) == 60.0
    assert pause(1, 0.0) == 0.5
