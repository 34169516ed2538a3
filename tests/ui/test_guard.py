"""Who may ask the server of the page, and what it tells browsers that the page may do."""

from __future__ import annotations

import re

import httpx
import pytest

from pgq.ui import create_app
from pgq.ui._acts import ACTS
from support.house import ROOT
from support.page import TOKEN, Page

STATIC = ROOT / "python" / "src" / "pgq" / "ui" / "static"


def test_nothing_is_told_without_the_token(page: Page) -> None:
    """Neither data nor what there is to ask for; acts do nothing."""
    wrong = [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer ä".encode("latin-1").decode("latin-1")},
        {"Cookie": f"token={TOKEN}"},
    ]
    for headers in wrong:
        encoded = [(name, value.encode("latin-1")) for name, value in headers.items()]
        for path in ("/api/about", "/api/overview", "/api/nothing", "/api/", "/api/act/cleanup"):
            answer = httpx.get(page.address + path, headers=encoded)
            assert answer.status_code == 401, (headers, path)
            assert answer.json()["message"] == "the token is missing, or that of another server"
        answer = httpx.post(page.address + "/api/act/cleanup", headers=encoded, json={})
        assert answer.status_code == 401
    assert httpx.get(page.address + f"/api/about?token={TOKEN}").status_code == 401
    assert page.ask("about")[0] == 200


def test_another_name_of_this_machine_is_refused(page: Page) -> None:
    """A page from elsewhere whose name leads here, all of a sudden, gets nothing."""
    for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1.evil.example", ""):
        for path in ("/", "/api/about", "/static/app.mjs"):
            answer = page.client.get(path, headers={"Host": host})
            assert answer.status_code == 400, (host, path)
    for host in ("localhost", f"localhost:{page.port}", f"127.0.0.1:{page.port}", "[::1]:80"):
        assert page.client.get("/api/about", headers={"Host": host}).status_code == 200, host


def test_what_browsers_are_told(page: Page) -> None:
    for path in ("/", "/static/app.mjs", "/api/about", "/api/nothing", "/elsewhere"):
        headers = page.client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self' 'sha256-")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "set-cookie" not in headers
    assert page.client.get("/api/about").headers["cache-control"] == "no-store"
    assert httpx.get(page.address + "/api/about").headers["x-frame-options"] == "DENY"


def test_another_page_may_not_even_ask(page: Page) -> None:
    """What a browser asks first, before it sends a request of another page with a header."""
    answer = httpx.options(
        page.address + "/api/act/cleanup",
        headers={
            "Origin": "https://evil.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        },
    )
    assert answer.status_code == 401
    assert "access-control-allow-origin" not in answer.headers


def test_its_files_and_no_others(page: Page) -> None:
    assert page.client.get("/").headers["content-type"] == "text/html; charset=utf-8"
    for file in STATIC.rglob("*"):
        if file.is_file():
            path = "/static/" + file.relative_to(STATIC).as_posix()
            answer = httpx.get(page.address + path)
            assert (answer.status_code, answer.content) == (200, file.read_bytes()), path
            if file.suffix in (".mjs", ".js"):
                assert answer.headers["content-type"].startswith("text/javascript"), path
    for path in ("/static/../_app.py", "/static/%2e%2e/_app.py", "/static/", "/static/vendor"):
        assert httpx.get(page.address + path).status_code == 404, path


def test_each_request_has_its_method(page: Page) -> None:
    assert page.client.get("/api/act/cleanup").status_code == 405
    assert page.client.post("/api/about", json={}).status_code == 405
    assert page.client.delete("/api/about").status_code == 405


def test_what_an_act_must_be(page: Page) -> None:
    def post(content: bytes, kind: str = "application/json", act: str = "cleanup") -> str:
        answer = page.client.post(
            f"/api/act/{act}", content=content, headers={"Content-Type": kind}
        )
        assert answer.status_code in (400, 404, 413, 415)
        return f"{answer.status_code} {answer.json()['message']}"

    # a form of another page can send these two kinds
    assert post(b"{}", "text/plain") == "415 the request must be application/json"
    assert post(b"", "application/x-www-form-urlencoded").startswith("415")
    assert post(b"{") == "400 the request is not JSON"
    assert post(b"[" * 100_000).startswith("400")
    assert post(b"[1]") == "400 the request must be a JSON object"
    assert post(b" " * 10_000_001) == "413 the request has more than 10,000,000 bytes"
    assert post(b"{}", act="drop_topic") == "404 there is no act called drop_topic"
    assert page.act("cleanup")


def test_a_token_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="16 characters"):
        create_app(token="short")


def test_every_act_of_the_page_is_one_of_the_server() -> None:
    """And every one of the server is used."""
    used: set[str] = set()
    for file in STATIC.glob("*.mjs"):
        for line in re.findall(r"\bact: (.*)", file.read_text()):
            used |= set(re.findall(r'"(\w+)"', line.partition(", button")[0]))
    assert used == set(ACTS)


def test_the_page_never_writes_markup() -> None:
    """Texts of others become texts: what could make elements of them is not there."""
    for file in STATIC.glob("*.mjs"):
        source = file.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(",
                     "new Function", "srcdoc", "javascript:"):  # fmt: skip
            assert word not in source, (file.name, word)
