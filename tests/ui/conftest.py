"""A page on a database of its own, with nothing in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from playwright.sync_api import Page as Tab

from pgq import Client
from support.page import EVIL, Page

# Some seconds more than the page takes to look again by itself.
expect.set_options(timeout=30_000)


@pytest.fixture
def page(dsn: str) -> Iterator[Page]:
    """The page of that database."""
    with Page(dsn) as page:
        yield page


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    """The functions of pgq in that database."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield Client(connection)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium: on Debian, apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_tab(browser: Browser, page: Page) -> Iterator[Any]:
    """Open the page; at the end of the test nothing may have gone wrong in it."""
    wrong: list[str] = []
    contexts = []

    def begin(url: str | None = None, **settings: Any) -> Tab:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        tab = context.new_page()
        address = urlsplit(url or page.url).netloc
        tab.on("pageerror", lambda error: wrong.append(f"{error}"))
        tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        tab.on(
            "request",
            lambda one: wrong.append(one.url) if urlsplit(one.url).netloc != address else None,
        )
        tab.goto(page.url if url is None else url)
        return tab

    yield begin
    for context in contexts:
        context.close()
    # what is refused is told by browsers as well, and meant here
    assert [one for one in wrong if "the server responded with a status of 4" not in one] == []


@pytest.fixture
def tab(open_tab: Any) -> Tab:
    tab: Tab = open_tab()
    return tab


@pytest.fixture
def letters(client: Client) -> list[int]:
    """The ids of three dead letters of the queue mail, with texts that try to be markup."""
    client.admin.create_queue("mail", max_attempts=1)
    client.enqueue_batch("mail", [{"n": n, "what": EVIL} for n in range(3)], keys=[EVIL] * 3)
    jobs = client.claim_job("mail", max_jobs=3)
    client.nack_batch([job.job_id for job in jobs], jobs[0].lease_token, error=EVIL)
    return [job.job_id for job in jobs]
