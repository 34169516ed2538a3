"""Draws the pictures of the documents: the page of ``pgq ui``, and a look of ``pgq top``.

    .venv/bin/python python/tools/pictures.py

The topic and the queues of a shop are worked on for some minutes on an embedded server, and then
shown. It needs the system's Chromium. The files go to python/docs/pictures.
"""

from __future__ import annotations

import io
import random
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import uvicorn
from playwright.sync_api import sync_playwright
from rich.console import Console

from pgq._sampling import figures, sample
from pgq.cli._house import connected
from pgq.cli._top import _screen
from pgq.embedded import Server
from pgq.migrate import migrate
from pgq.ui import create_app

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SECONDS = 100
"""So long the shop is open before the pictures are taken: the curves of the page need some."""

SHOP = """
select pgq.create_topic('orders', partitions => 4);
select pgq.create_group('orders', 'billing');
select pgq.create_group('orders', 'stock');
select pgq.create_queue('invoices', ordered => true, archive => true);
select pgq.create_queue('mails', max_attempts => 2, backoff => '1 s', backoff_max => '1 s');
select pgq.create_queue('thumbnails');
select pgq.subscribe('invoices', 'orders', 'invoices', filter => '{"paid": [true]}');
select pgq.create_schedule('daily', queue => 'mails', payload => '{}', cron => '30 8 * * *');
"""
PUBLISH = """
select pgq.publish(
    'orders', jsonb_build_object('order', %(n)s::int), key => 'customer ' || %(n)s %% 90,
    headers => jsonb_build_object('paid', %(n)s %% 3 > 0)
)
"""
ENQUEUE = "select pgq.enqueue(%(queue)s, '{}', label => %(label)s, delay => %(delay)s)"
CONSUME = "select count(*) from pgq.consume('orders', %(group)s, max_messages => 20)"
CLAIM = "select job_id, lease_token from pgq.claim_job(%(queue)s, max_jobs => 2)"
ERRORS = ("SMTP 421: too many connections", "SMTP 550: no such mailbox")


def _shop(dsn: str, open_until: float) -> list[threading.Thread]:
    """What goes on in it, each in a thread and on a connection of its own."""

    def repeat(each: float, do: Callable[[psycopg.Connection[Any], int], None]) -> threading.Thread:
        def run() -> None:
            with psycopg.connect(dsn, autocommit=True) as connection:
                number = 0
                while time.monotonic() < open_until:
                    do(connection, number)
                    number += 1
                    time.sleep(random.uniform(0.5, 1.5) * each)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def order(connection: psycopg.Connection[Any], number: int) -> None:
        for more in range(1 + int(4 * (1 + (number % 300) / 150))):
            connection.execute(PUBLISH, {"n": number * 16 + more})
        connection.execute(ENQUEUE, {"queue": "mails", "label": "welcome", "delay": None})
        late = "5 minutes" if number % 4 == 0 else None
        connection.execute(ENQUEUE, {"queue": "thumbnails", "label": "large", "delay": late})

    def consume(group: str) -> Callable[[psycopg.Connection[Any], int], None]:
        return lambda connection, _: (connection.execute(CONSUME, {"group": group}), None)[1]

    def work(queue: str, fails: float) -> Callable[[psycopg.Connection[Any], int], None]:
        def step(connection: psycopg.Connection[Any], _: int) -> None:
            for job, token in connection.execute(CLAIM, {"queue": queue}).fetchall():
                if random.random() < fails:
                    error = random.choice(ERRORS)
                    connection.execute("select pgq.nack(%s, %s, error => %s)", (job, token, error))
                else:
                    connection.execute("select pgq.ack(%s, %s)", (job, token))

        return step

    def beat(connection: psycopg.Connection[Any], _: int) -> None:
        for worker, queue in (("mailer-1", "mails"), ("mailer-2", "mails"), ("office", "invoices")):
            connection.execute(
                "select pgq.heartbeat(%s, kind => 'worker', host => 'shop', sources => %s)",
                (worker, [queue]),
            )

    return [
        repeat(0.2, order), repeat(0.3, consume("billing")), repeat(1.2, consume("stock")),
        repeat(0.1, work("invoices", 0)), repeat(0.1, work("mails", 0.2)),
        repeat(0.4, work("thumbnails", 0)), repeat(5, beat),
    ]  # fmt: skip


def _page(dsn: str, seconds: float) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no chromium: on Debian, apt-get install chromium")
    app = create_app(dsn, token="pictures", read_only=True)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": 760})
        tab.goto(f"http://127.0.0.1:{listener.getsockname()[1]}/#token=pictures")
        tab.wait_for_timeout(seconds * 1000)
        tab.screenshot(path=PICTURES / "ui.png")
        browser.close()
    server.should_exit = True
    thread.join()


def _top(dsn: str) -> None:
    with connected(dsn, read_only=True) as client:
        before = sample(client)
        time.sleep(2)
        now = sample(client)
    console = Console(record=True, width=112, file=io.StringIO())
    console.print(_screen(figures(now, before), now, console, 60, "shop"))
    # without its fonts, which a reader's browser would have to load from elsewhere
    drawn = re.sub(
        r"@font-face \{.*?\}\s*", "", console.export_svg(title="pgq top"), flags=re.DOTALL
    )
    (PICTURES / "top.svg").write_text(drawn)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    random.seed(1)
    with Server() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("create database shop")
        dsn = server.dsn_for("shop")
        with psycopg.connect(dsn, autocommit=True) as connection:
            migrate(connection)
            connection.execute(SHOP)
        threads = _shop(dsn, time.monotonic() + SECONDS)
        _page(dsn, SECONDS - 15)
        _top(dsn)
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
