"""Metrics for Prometheus, over HTTP: ``serve("postgresql://…")`` until it is interrupted.

``/metrics`` is what `pgq.metrics_text()` returns, ``/health`` says whether the database answers.
Where it does not, both are a 503 with a sentence, and the next request tries again.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from pgq._conninfo import parsed
from pgq._hosts import may_be_asked, own_names
from pgq._sync import Client

__all__ = ["Exporter", "serve"]

LOG = logging.getLogger("pgq.exporter")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# a server that vanishes without a word is noticed; the caller's own settings come first
_PATIENCE: dict[str, Any] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10000,
    "fallback_application_name": "pgq exporter",
}
_HTTP_TIMEOUT = 30.0
"""Seconds after which a client that says nothing is let go."""


class Unavailable(Exception):
    """There are no metrics; the message says why, in a sentence."""


class Exporter:
    """The server, as a context manager; `address` is where it listens."""

    def __init__(
        self,
        database: str = "",
        *,
        host: str = "127.0.0.1",
        port: int = 9187,
        timeout: float = 30,
        hosts: Collection[str] = (),
    ) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout}, must be more than 0")
        self._source = _Source(database, timeout)
        names = own_names(host) | {name.lower() for name in hosts}
        self._server = _server(self._source, host, port, names)
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """The beginning of its URLs."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"

    def run(self) -> None:
        """Serve until `stop`, which another thread has to call, or Ctrl-C."""
        LOG.info("metrics at %s/metrics", self.address)
        self._server.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """Let `run` return."""
        self._server.shutdown()

    def close(self) -> None:
        """Give back the port and the connection."""
        self._server.server_close()
        self._source.close()

    def __enter__(self) -> Exporter:
        self._thread = threading.Thread(target=self.run, name="pgq-exporter", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()
        self.close()


def serve(
    database: str = "",
    *,
    host: str = "127.0.0.1",
    port: int = 9187,
    timeout: float = 30,
    hosts: Collection[str] = (),
) -> None:
    """Serve the metrics of a database until Ctrl-C.

    database: where it is, by default where libpq's own settings say. It need not be there yet, and
    may go and come back. host, port: where to listen; nobody is asked who he is, so leave it on
    this machine, or in a network where all may see the figures. timeout: so many seconds the
    database has for an answer. hosts: names under which it may be asked, beside any IP address,
    localhost, host and, where others reach it, the machine's own; ``*``: any. A page of others
    whose name is made to lead here is refused.

    The role needs EXECUTE on `pgq.metrics_text()`. Raises OSError when the address is taken.
    """
    exporter = Exporter(database, host=host, port=port, timeout=timeout, hosts=hosts)
    try:
        exporter.run()
    finally:
        exporter.close()


class _Source:
    """One connection, which all requests share; one that is lost is made again."""

    def __init__(self, database: str, timeout: float) -> None:
        self._database = make_conninfo(**{**_PATIENCE, **parsed(database)})
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None

    def read(self) -> str:
        """The text; Unavailable when there is none."""
        with self._lock:
            # one that the server has closed in between shows itself only when it is used
            if self._connection is not None:
                try:
                    return self._ask(self._connection)
                except psycopg.OperationalError as error:
                    self._drop()
                    if isinstance(error, psycopg.errors.QueryCanceled):
                        raise Unavailable(_sentence(error)) from None
                except psycopg.Error as error:
                    self._drop()
                    raise Unavailable(_sentence(error)) from None
            try:
                self._connection = self._connect()
                return self._ask(self._connection)
            except psycopg.Error as error:
                self._drop()
                raise Unavailable(_sentence(error)) from None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    def _connect(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = psycopg.connect(
            self._database,
            autocommit=True,
            prepare_threshold=None,  # so that a pooler in transaction mode may stand between
        )
        return connection

    def _ask(self, connection: psycopg.Connection[Any]) -> str:
        # within a transaction, so that it holds behind a pooler too, and for this call alone
        with connection.transaction():
            connection.execute(
                f"set local statement_timeout = {int(self._timeout * 1000)}".encode()
            )
            return Client(connection).monitor.metrics_text()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _sentence(error: psycopg.Error) -> str:
    if isinstance(error, psycopg.errors.InvalidSchemaName | psycopg.errors.UndefinedFunction):
        return "this database has no pgq, or one without metrics"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return "the role may not call pgq.metrics_text"
    said = error.diag.message_primary or str(error).strip().partition("\n")[0]
    return f"the database does not answer: {said or type(error).__name__}"


def _server(source: _Source, host: str, port: int, names: Collection[str]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "pgq"
        sys_version = ""
        timeout = _HTTP_TIMEOUT

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if not may_be_asked(self.headers.get("Host"), names):
                self._answer(400, "this server is not asked under this name\n")
            elif path == "/":
                self._answer(200, "metrics of pgq: /metrics, /health\n")
            elif path not in ("/metrics", "/health"):
                self._answer(404, "there are /metrics and /health\n")
            else:
                try:
                    text = source.read()
                except Unavailable as error:
                    LOG.warning("%s", error)
                    self._answer(503, f"{error}\n")
                else:
                    self._answer(200, text if path == "/metrics" else "ok\n")

        do_HEAD = do_GET  # noqa: N815  as the library calls it

        def _answer(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
            LOG.debug(format, *arguments)

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, request: Any, client_address: Any) -> None:
            LOG.debug("a client has gone away", exc_info=True)

    return Server((host, port), Handler)
