"""Where requests may go: no private address, whatever it is called, and no other than was checked.

Only the look-up of names is replaced; connections are real.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="no httpx: pip install 'pgq-sql[push]'")

from pgq.push import _addresses, parse
from pgq.push._http import Answer, Sender
from support.receiver import Receiver, Reply

CERTIFICATE = Path(__file__).with_name("hooks.example.com.pem")

Names = dict[str, list[str]]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver().start()
    yield receiver
    receiver.close()


def post(url: str, **others: str) -> Answer:
    """What comes of a request to a url."""
    lines = [f"{key} = {value}" for key, value in others.items()]
    least = f'[[push]]\ntopic = "t"\nconsumer_group = "g"\nurl = "{url}"'
    config = parse("\n".join([least, *lines]))

    async def send() -> Answer:
        sender = Sender(config.pushes[0])
        try:
            return await sender.post(b"{}", {"content-type": "application/json"})
        finally:
            await sender.close()

    return asyncio.run(send())


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[Names], list[str]]:
    """Give names other addresses; returns the list of what was looked up."""

    def replace(names: Names) -> list[str]:
        asked: list[str] = []

        async def resolve(host: str, port: int) -> list[Any]:
            asked.append(host)
            return [ip_address(text) for text in names[host]]

        monkeypatch.setattr(_addresses, "resolve", resolve)
        return asked

    return replace


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "2130706433",
        "0",
        "0.0.0.0",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
    ],
)
def test_ways_to_write_this_machine(receiver: Receiver, host: str) -> None:
    answer = post(f"http://{host}:{receiver.port}/")
    assert answer.status is None
    assert not answer.accepted
    assert "not public" in answer.error or "the host is not known" in answer.error
    assert receiver.requests == []


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.127.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "203.0.113.1",
        "192.88.99.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "0.1.2.3",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "2001::1",
        "3fff::1",
        "100::1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::1",
        "2002:a00:1::",
    ],
)
def test_addresses_that_are_not_public(address: str, looked_up: Any) -> None:
    assert not _addresses.is_public(ip_address(address))
    looked_up({"hooks.example.com": [address]})
    assert "not public" in post("http://hooks.example.com/").error


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
)
def test_addresses_that_are_public(address: str) -> None:
    assert _addresses.is_public(ip_address(address))


def test_one_private_address_refuses_the_host(receiver: Receiver, looked_up: Any) -> None:
    looked_up({"hooks.example.com": ["93.184.216.34", "127.0.0.1"]})
    answer = post(f"http://hooks.example.com:{receiver.port}/")
    assert "127.0.0.1, which is not public" in answer.error
    assert receiver.requests == []


def test_a_name_that_changes_is_looked_up_once(
    receiver: Receiver, looked_up: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was checked is what is connected to; the name of the host stays in the request."""
    monkeypatch.setattr(_addresses, "is_public", lambda address: True)
    asked = looked_up({"hooks.example.com": ["127.0.0.1"]})

    def unexpected(*_: Any, **__: Any) -> None:
        raise AssertionError("looked up a second time")

    monkeypatch.setattr("socket.getaddrinfo", unexpected)
    answer = post(f"http://hooks.example.com:{receiver.port}/a?b=c")
    assert answer.accepted, answer
    assert asked == ["hooks.example.com"]
    assert receiver.requests[0].headers["host"] == f"hooks.example.com:{receiver.port}"


def test_the_next_address_is_tried(receiver: Receiver, looked_up: Any) -> None:
    looked_up({"hooks.example.com": ["127.0.0.2", "::1", "127.0.0.1"]})
    answer = post(f"http://hooks.example.com:{receiver.port}/", allow_private="true")
    assert answer.accepted, answer


def test_private_addresses_that_are_allowed(receiver: Receiver) -> None:
    assert post(f"http://127.1:{receiver.port}/", allow_private="true").accepted


def test_no_proxy_of_the_environment(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert post(f"http://127.0.0.1:{receiver.port}/", allow_private="true").accepted


def test_cookies_are_not_kept(receiver: Receiver) -> None:
    config = parse(
        f'[[push]]\ntopic = "t"\nconsumer_group = "g"\nurl = "{receiver.url}"\nallow_private = true'
    )
    receiver.reply = lambda _: Reply(200, {"set-cookie": "a=b; Path=/"})

    async def twice() -> None:
        sender = Sender(config.pushes[0])
        for _ in range(2):
            assert (await sender.post(b"{}", {})).accepted
        await sender.close()

    asyncio.run(twice())
    assert all("cookie" not in request.headers for request in receiver.requests)


def test_tls_is_for_the_name(looked_up: Any) -> None:
    """The certificate must be that of the name, though the connection goes to an address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    names: list[Any] = []
    context.sni_callback = lambda _, name, __: names.append(name)
    looked_up({"hooks.example.com": ["127.0.0.1"], "other.example.com": ["127.0.0.1"]})
    receiver = Receiver(context).start()
    try:
        trusted = {"allow_private": "true", "ca_file": f'"{CERTIFICATE}"'}
        url = f"https://hooks.example.com:{receiver.port}/"
        answer = post(url, **trusted)
        assert answer.accepted, answer
        assert names == ["hooks.example.com"]
        other = post(url.replace("hooks", "other"), **trusted)
        assert "certificate" in other.error.lower()
        untrusted = post(url, allow_private="true")
        assert "certificate" in untrusted.error.lower()
        assert len(receiver.requests) == 1
    finally:
        receiver.close()
