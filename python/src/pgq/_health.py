"""Probes of an orchestrator: ``/live``, whether to restart a process, ``/ready``, whether it works.

A database that is away makes a process not ready, and leaves it live: a restart would not help.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Health"]

PATIENCE = 5.0
"""Seconds within which the event loop has to have its turn."""


class Health:
    """Within this block both paths are answered on a port; None: there is none."""

    def __init__(self, port: int | None, ready: Callable[[], bool]) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop of the tasks; a coroutine that holds it up makes the process not live."""
        self._ready = ready
        self._server = None if port is None else _server(port, self)

    def __enter__(self) -> Health:
        if self._server is not None:
            threading.Thread(
                target=self._server.serve_forever, name="pgq-health", daemon=True
            ).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def answers(self, path: str) -> bool | None:
        """Whether what the path asks is so; None: there is no such path."""
        return {"/live": self._is_live, "/ready": self._ready}.get(path, lambda: None)()

    def _is_live(self) -> bool:
        if self.loop is None:
            return True
        turn = threading.Event()
        try:
            self.loop.call_soon_threadsafe(turn.set)
        except RuntimeError:  # the loop has ended, and the process is about to
            return True
        return turn.wait(PATIENCE)


def _server(port: int, health: Health) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0

        def do_GET(self) -> None:
            answer = health.answers(self.path.partition("?")[0])
            status, text = {
                True: (200, "ok"), False: (503, "no"), None: (404, "there are /live and /ready")
            }[answer]  # fmt: skip
            body = f"{text}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
            """Probes are not worth a line."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

        def server_bind(self) -> None:
            if self.address_family == socket.AF_INET6:
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that has gone away."""

    try:
        return Server(("", port), Handler)
    except OSError as error:
        why = "is taken" if error.errno == errno.EADDRINUSE else f"is refused: {error.strerror}"
        raise OSError(error.errno, f"port {port} {why}") from None
