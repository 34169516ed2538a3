"""The page inside another application, which has a login of its own: the example of the guide."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from pgq import Client
from pgq.ui import create_app
from support.page import Page
from ui.test_guide import BLOCKS

[EXAMPLE] = [text for _, language, text in BLOCKS if language == "python" and "login=" in text]
OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def app(dsn: str, client: Client, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The application of the guide, on a database with the queue mail."""
    client.admin.create_queue("mail")
    monkeypatch.setenv("DATABASE_URL", dsn)
    monkeypatch.setenv("OPERATOR_PASSWORD", "open sesame")
    found: dict[str, Any] = {}
    exec(EXAMPLE, found)
    return found["app"]


def requests(app: Any, *asked: tuple[str, str, dict[str, Any]]) -> list[httpx.Response]:
    """The answers to requests in turn, with the cookies that came before."""

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [await client.request(method, path, **more) for method, path, more in asked]

    return asyncio.run(ask())


LOGIN = ("POST", "/login", {"data": {"password": "open sesame"}})
PAUSE = ("POST", "/queues/api/act/pause_queue")
MAIL = {"json": {"queue": "mail"}}


def test_only_with_the_session(app: Any) -> None:
    stranger, page, refused, wrong, still, _, told, seen = requests(
        app,
        ("GET", "/queues/api/about", {}),
        ("GET", "/queues/", {}),
        (*PAUSE, {**MAIL, "headers": OWN}),
        ("POST", "/login", {"data": {"password": "guessed"}}),
        ("GET", "/queues/api/about", {}),
        LOGIN,
        ("GET", "/queues/api/about", {}),
        ("GET", "/queues/api/overview", {}),
    )
    assert (stranger.status_code, refused.status_code) == (401, 401)
    assert stranger.json()["login"] is True
    assert page.status_code == 200
    assert page.headers["x-frame-options"] == "DENY"
    assert (wrong.status_code, still.status_code) == (403, 401)
    assert told.json()["acts"]
    assert told.headers["cache-control"] == "no-store"
    assert [one["queue"] for one in seen.json()["queues"]] == ["mail"]  # without a lifespan


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:81"}, 403),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://localhost"}, 200),
        (OWN, 200),
    ],
)
def test_an_act_comes_from_the_page_itself(
    app: Any, client: Client, headers: dict[str, str], status: int
) -> None:
    _, answer = requests(app, LOGIN, (*PAUSE, {**MAIL, "headers": headers}))
    assert answer.status_code == status
    assert client.monitor.queue_stats("mail")[0].paused is (status == 200)


def test_a_form_is_no_act(app: Any) -> None:
    _, answer = requests(app, LOGIN, (*PAUSE, {"data": {"queue": "mail"}, "headers": OWN}))
    assert answer.status_code == 415


@pytest.mark.parametrize("given", [{}, {"token": "x" * 16, "login": bool}])
def test_a_token_or_a_login(given: Any) -> None:
    with pytest.raises(ValueError, match="either a token or a login"):
        create_app(**given)


def test_a_login_that_waits(dsn: str) -> None:
    """It may be a coroutine function."""

    async def login(request: Any) -> bool:
        return request.headers.get("x-user") == "ann"

    app = create_app(dsn, login=login, hosts=["localhost"])
    known, unknown = requests(
        app, ("GET", "/api/about", {"headers": {"X-User": "ann"}}), ("GET", "/api/about", {})
    )
    assert (known.status_code, unknown.status_code) == (200, 401)


@pytest.fixture
def served(app: Any, dsn: str) -> Iterator[Page]:
    with Page(dsn, app=app) as page:
        yield page


@pytest.mark.slow
def test_in_a_browser(served: Page, open_tab: Any, client: Client) -> None:
    """Who logs in uses the page below its path; who logs out is told so."""
    tab = open_tab(f"{served.address}/queues/")
    expect(tab.get_by_text("you are not logged in")).to_be_visible()
    tab.goto(f"{served.address}/login")
    tab.get_by_label("password").fill("open sesame")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    tab.goto(f"{served.address}/queues/#/queues/mail")
    tab.get_by_role("button", name="Pause…").click()
    tab.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(tab.get_by_role("status")).to_have_text("queue mail is paused")
    assert client.monitor.queue_stats("mail")[0].paused
    tab.context.clear_cookies()
    tab.keyboard.press("r")
    expect(tab.get_by_text("you are not logged in")).to_be_visible()
