"""The server of the page: its files, what it asks, what it does, and who may."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgq.ui._acts import act
from pgq.ui._history import History
from pgq.ui._query import Query
from pgq.ui._reads import Reads
from pgq.ui._source import Problem, Source

__all__ = ["create_app"]

Login = Callable[[HTTPConnection], "bool | Awaitable[bool]"]
LOG = logging.getLogger("pgq.ui")
STATIC = Path(__file__).parent / "static"
LARGEST = 10_000_000
"""Bytes of a request: a payload that somebody types in."""


def create_app(
    database: str = "",
    *,
    token: str | None = None,
    login: Login | None = None,
    read_only: bool = False,
    hosts: Sequence[str] = ("127.0.0.1", "localhost", "[::1]"),
    interval: float = 5,
) -> Starlette:
    """The page as an ASGI application.

    It can be mounted in another application, below a path of its own.

    database: its connection string, by default what libpq's own settings say. token: what a request
    for data has to bring, as ``Authorization: Bearer …``; the page takes it from the fragment of
    its address, ``/#token=…``. login: instead of a token, a function of a request, which may be
    ``async``: whether its user has logged in, such as by the session of the application around it.
    An act then has to come from the page itself, as the browser says. read_only: refuse whatever
    changes something. hosts: the names under which the server may be asked, without ports; ``*``:
    any. interval: seconds between two looks at the database, from which the page draws its curves.
    """
    if (token is None) == (login is None):
        raise ValueError("either a token or a login is needed")
    if token is not None and len(token) < 16:
        raise ValueError("the token must have 16 characters or more")
    source = Source(database, read_only=read_only)
    history = History(source, interval=interval)
    reads = Reads(source, history)

    async def read(request: Request) -> Response:
        name, query = request.path_params["name"], Query(request.query_params)
        return _json(await run_in_threadpool(reads.answer, name, query))

    async def do(request: Request) -> Response:
        given = await _body(request)
        return _json(
            await run_in_threadpool(act, source, history, request.path_params["name"], given)
        )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        history.start()
        try:
            yield
        finally:
            await run_in_threadpool(history.stop)
            await run_in_threadpool(source.close)

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    return Starlette(
        routes=[
            Route("/", page),
            Mount(
                "/api",
                routes=[
                    Route("/act/{name}", do, methods=["POST"]),
                    Route("/{name}", read, methods=["GET"]),
                ],
                middleware=[Middleware(_Guard, token=token, login=login, begin=history.start)],
            ),
            Mount("/static", _Files(directory=STATIC)),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
            Middleware(_Told),
        ],
        exception_handlers={Problem: _problem, Exception: _mistake},
        lifespan=lifespan,
    )


class _Files(StaticFiles):
    """The page's own files: a browser that has one of another version asks again."""

    def file_response(self, *arguments: Any, **named: Any) -> Response:
        response = super().file_response(*arguments, **named)
        response.headers["Cache-Control"] = "no-cache"
        if str(arguments[0]).endswith(".mjs"):  # not every system knows what these are
            response.headers["Content-Type"] = "text/javascript; charset=utf-8"
        return response


class _Told:
    """Tells browsers what the page may do."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = {
            "Content-Security-Policy": _policy((STATIC / "index.html").read_text()),
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        await self._app(scope, receive, sending)


class _Guard:
    """Asks who it is, of all requests for data."""

    def __init__(
        self, app: ASGIApp, token: str | None, login: Login | None, begin: Callable[[], None]
    ) -> None:
        self._app = app
        self._bearer = f"Bearer {token}".encode()
        self._login = login
        self._begin = begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Cache-Control"] = "no-store"
            await send(message)

        refused = await self._refused(HTTPConnection(scope))
        if refused is None:
            self._begin()  # an application that is mounted gets no lifespan
        await (refused or self._app)(scope, receive, sending)

    async def _refused(self, request: HTTPConnection) -> Response | None:
        if self._login is None:
            # it is no cookie: those go to all ports of a host, and along with requests of others
            given = request.headers.get("authorization", "").encode()
            known, message = (
                hmac.compare_digest(given, self._bearer),
                "the token is missing, or that of another server",
            )
        else:
            found = self._login(request)
            known = await found if isawaitable(found) else found
            message = "you are not logged in, or may not use this page"
        if not known:
            return JSONResponse({"message": message, "login": self._login is not None}, 401)
        if request.scope["method"] not in ("GET", "HEAD") and not self._is_own(request.headers):
            return JSONResponse({"message": "the request comes from another page"}, 403)
        return None

    def _is_own(self, headers: Headers) -> bool:
        """Whether the page itself sends it. A cookie goes along with what others send, too."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            return site == "same-origin"
        if origin is not None:
            return urlsplit(origin).netloc == headers.get("host")
        return self._login is None  # a program, which has the token


def _policy(page: str) -> str:
    """Nothing but the page's own files; the map of its modules is known by its checksum."""
    [inline] = re.findall(r'<script type="importmap">(.*?)</script>', page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


async def _body(request: Request) -> Mapping[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Problem(415, "the request must be application/json")
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > LARGEST:
            raise Problem(413, f"the request has more than {LARGEST:,} bytes")
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        raise Problem(400, "the request is not JSON") from None
    if not isinstance(given, dict):
        raise Problem(400, "the request must be a JSON object")
    return given


def _json(value: Any) -> Response:
    return JSONResponse(value)


async def _problem(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    told = {"message": problem.message, "hint": problem.hint, "sqlstate": problem.sqlstate}
    return JSONResponse(told, problem.status)


async def _mistake(_: Request, error: Exception) -> Response:
    LOG.error("a mistake in pgq", exc_info=error)
    return JSONResponse({"message": f"this is a mistake in pgq: {type(error).__name__}"}, 500)
