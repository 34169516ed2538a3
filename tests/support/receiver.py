"""An HTTP server for what is pushed: it keeps what it got, and answers as a test wants."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.waiting import PATIENCE, wait_until

__all__ = ["Received", "Receiver", "Reply", "first_deliveries"]


@dataclass
class Received:
    """One request that arrived as a whole."""

    headers: dict[str, str]
    body: bytes

    @cached_property
    def content(self) -> Any:
        """The body, which not every receiver can read."""
        return json.loads(self.body)

    @property
    def partition(self) -> int:
        """The partition that its messages are of."""
        return int(self.content["partition"])

    @property
    def offsets(self) -> list[int]:
        """The offsets of its messages."""
        return [message["log_offset"] for message in self.content["messages"]]

    @property
    def payloads(self) -> list[Any]:
        """Their payloads."""
        return [message["payload"] for message in self.content["messages"]]


@dataclass
class Reply:
    """What the server does with a request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    after: threading.Event | None = None
    """Not before this is set."""
    cut: str = ""
    """Where it closes the connection: 'before' any answer, or in the 'middle' of its body."""
    drip: bool = False
    """Send a header after the other, and never all of them."""


class Receiver:
    """The server; `reply` decides what a request gets, a 200 by default."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.requests: list[Received] = []
        self.reply: Callable[[Received], Reply] = lambda _: Reply()
        self._context = context
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self._connections: set[socket.socket] = set()
        self.released = threading.Event()
        """What hangs until the end of the test waits for this."""

    @property
    def port(self) -> int:
        """Its port, the same after a restart."""
        return self._port

    @property
    def url(self) -> str:
        """Where to send to."""
        return f"http://127.0.0.1:{self._port}/hook"

    def start(self) -> Receiver:
        """Listen."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = PATIENCE

            def setup(self) -> None:
                receiver._connections.add(self.request)
                super().setup()

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) < length:
                    self.close_connection = True  # the sender was killed amid its request
                    return
                receiver._answer(self, {k.lower(): v for k, v in self.headers.items()}, body)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # clients that go away are part of the tests

        self._server = Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        if self._context is not None:
            self._server.socket = self._context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def die(self) -> None:
        """Stop listening, and cut every connection."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for connection in [*self._connections]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def close(self) -> None:
        """End with the test."""
        self.released.set()
        self.die()

    def script(self, *replies: Reply, then: Reply | None = None) -> None:
        """Answer the next requests so, and all later ones with ``then``."""
        left = iter(replies)
        lock = threading.Lock()

        def reply(_: Received) -> Reply:
            with lock:
                return next(left, then or Reply())

        self.reply = reply

    def wait_for(self, count: int, timeout: float = PATIENCE) -> list[Received]:
        """Wait until so many requests have arrived."""
        wait_until(
            lambda: len(self.requests) >= count,
            timeout,
            f"for {count} requests",
        )
        return self.requests

    def _answer(
        self, handler: BaseHTTPRequestHandler, headers: dict[str, str], body: bytes
    ) -> None:
        received = Received(headers, body)
        self.requests.append(received)
        reply = self.reply(received)
        if reply.after is not None:
            reply.after.wait(PATIENCE)
        if reply.cut == "before":
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        while reply.drip and not self.released.is_set():
            handler.send_header("x-more", "soon")
            handler.flush_headers()
            self.released.wait(0.02)
        if reply.cut == "middle":
            handler.send_header("content-length", "100")
            handler.end_headers()
            handler.wfile.write(b"begin")
            handler.wfile.flush()
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.send_header("content-length", "2")
        handler.end_headers()
        handler.wfile.write(b"ok")


def first_deliveries(requests: Iterable[Received]) -> dict[int, list[int]]:
    """The offsets of each partition in the order in which they first came.

    Repeats are checked on the way: each request goes on where the last one ended, or further back,
    so what comes again comes again as a whole.
    """
    found: dict[int, list[int]] = {}
    ends: dict[int, int] = {}
    for request in requests:
        seen = found.setdefault(request.partition, [])
        offsets = request.offsets
        assert offsets == list(range(offsets[0], offsets[-1] + 1))
        assert offsets[0] <= ends.get(request.partition, 0) + 1, (seen, offsets)
        ends[request.partition] = offsets[-1]
        seen.extend(offset for offset in offsets if not seen or offset > seen[-1])
    return found
