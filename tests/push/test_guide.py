"""The configuration that the guide shows works as it stands, on an endpoint of this machine."""

from __future__ import annotations

import base64
import re
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

pytest.importorskip("httpx", reason="no httpx: pip install 'pgq-sql[push]'")

from standardwebhooks import Webhook

from pgq.push import Push, parse
from pgq.push._config import _READ, _READ_ABOVE
from support.house import ROOT
from support.log import committed_offsets, new_topic
from support.push_config import settings
from support.receiver import Receiver, Reply
from support.session import Session, new_name
from support.waiting import PATIENCE, wait_until

GUIDE = (ROOT / "python" / "PUSH.md").read_text()
SECRET = "whsec_" + base64.b64encode(b"s" * 24).decode()


def test_the_example(
    log: Session,
    shared_dsn: str,
    receiver: Receiver,
    run_push: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = _block("toml")
    monkeypatch.setenv("BILLING_SECRETS", SECRET)
    parameters = conninfo_to_dict(shared_dsn)
    for name, variable in (("host", "HOST"), ("port", "PORT"), ("user", "USER")):
        monkeypatch.setenv(f"PG{variable}", str(parameters[name]))
    monkeypatch.setenv("PGDATABASE", str(parameters["dbname"]))
    assert parse(text).database == "postgresql:///"
    with psycopg.connect("postgresql:///", autocommit=True) as connection:
        connection.execute(_block("sql").encode())
    local = text.replace("https://hooks.example.com/orders", receiver.url)
    run_push(f"{local}allow_private = true\n", None)
    log.publish(topic="web-orders", payload={"order": 1}, key="customer 7")
    (request,) = receiver.wait_for(1)
    assert Webhook(SECRET).verify(request.body, request.headers) == request.content
    assert request.headers["x-source"] == "shop"
    wait_until(lambda: sum(committed_offsets(log, "web-orders", "billing")) == 1, PATIENCE)


def test_the_role_may_do_all(
    log: Session, shared_dsn: str, receiver: Receiver, run_push: Any
) -> None:
    """With the grants that the guide names, messages are sent and dead letters published."""
    role = new_name("pusher").replace("-", "_")
    topic, dead = new_topic(log, groups=()), new_topic(log)
    grants = re.findall(r"^```sql\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)[1]
    log.execute(re.sub(r"\bpusher\b", role, grants).encode())
    try:
        log.execute(f"alter role {role} login".encode())
        log.publish_batch(topic=topic, payloads=[1, 2, 3])
        receiver.reply = lambda request: Reply(500 if 2 in request.payloads else 200)
        text = settings(topic, receiver.url, partitions=[0], max_attempts=1, dead_letter_topic=dead)
        running = run_push(text, make_conninfo(shared_dsn, user=role))
        wait_until(lambda: committed_offsets(log, topic, "readers") == [3], PATIENCE)
        running.stop()
        assert len(log.fetch(topic=dead, consumer_group="readers")) == 1
    finally:
        log.execute(f"drop owned by {role}; drop role {role}".encode())


def test_the_table_has_every_key_and_its_default() -> None:
    rows = re.findall(r"^\| (`.+?) \| (.+?) \|", GUIDE, re.MULTILINE)
    listed = [key for keys, _ in rows for key in re.findall(r"`(\w+)`", keys)]
    assert sorted(listed) == sorted(_READ)
    (least,) = parse('[[push]]\ntopic = "t"\nconsumer_group = "g"\nurl = "http://a/"').pushes
    for keys, defaults in rows:
        for key, default in zip(re.findall(r"`(\w+)`", keys), defaults.split(", "), strict=False):
            value = re.fullmatch(r'`"?(\d\w*|true|false)"?`|(\d+)', default)
            if value:
                written = f"{key} = {default.strip('`')}"
                text = f'[[push]]\ntopic = "t"\nconsumer_group = "g"\nurl = "http://a/"\n{written}'
                assert parse(text).pushes == (least,), written


def test_the_keys_above_the_tables_are_named() -> None:
    for key in _READ_ABOVE:
        assert f"`{key}`" in GUIDE or f"\n{key} =" in GUIDE


def test_keys_and_settings_are_the_same() -> None:
    assert {*_READ} - {"secret_env"} == {*Push.__dataclass_fields__}


def _block(language: str) -> str:
    match = re.search(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]
