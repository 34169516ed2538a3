"""Runs the server of the page until it is interrupted."""

from __future__ import annotations

import secrets
import socket
import sys
import threading
import webbrowser
from contextlib import closing
from pathlib import Path

import uvicorn

from pgq import connect
from pgq._hosts import is_this_machine
from pgq.ui._app import create_app
from pgq.ui._opening import Opening, token_of

__all__ = ["run"]


def run(
    *,
    database: str = "",
    host: str = "127.0.0.1",
    port: int = 0,
    open_browser: bool = True,
    read_only: bool = False,
    token_file: Path | None = None,
) -> None:
    """Serve the page of a database until Ctrl-C, and print its address.

    On a terminal the address has the token in it. Elsewhere, as in the log of a service, it does
    not: then a file is named that opens the page, and that only this user can read. host, port:
    where to listen, by default on this machine alone and at any free port. open_browser: show it.
    read_only: refuse whatever changes something. token_file: use the token in it, or
    make one there when it is missing.

    Raises psycopg.Error when the database does not answer or has no pgq, OSError when the address
    is taken, and ValueError when others can read the token_file, or there is no token in it.
    """
    _try(database)
    token = secrets.token_urlsafe(24) if token_file is None else token_of(token_file)
    with _listening(host, port) as listener:
        own = is_this_machine(host)
        app = create_app(
            database,
            token=token,
            read_only=read_only,
            hosts=("127.0.0.1", "localhost", "[::1]", host) if own else ("*",),
        )
        address = _address(host, listener.getsockname()[1])
        # in the fragment it is sent to nobody, and stands in no log
        url = f"{address}/#token={token}"
        with closing(Opening(url)) as opening:
            if sys.stdout.isatty():
                print(url, flush=True)
            else:
                print(address, flush=True)
                print(f"pgq: {opening.file} opens it, with its token", file=sys.stderr)
            if not own:
                print(
                    f"pgq: {host} can be reached by others, and what they send is not encrypted",
                    file=sys.stderr,
                )
            print("pgq: Ctrl-C ends it", file=sys.stderr, flush=True)
            if open_browser:
                shown = opening.file.as_uri()
                threading.Thread(target=webbrowser.open, args=(shown,), daemon=True).start()
            settings = uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="on",
                timeout_graceful_shutdown=2,
            )
            try:
                _Server(settings, opening).run(sockets=[listener])
            except KeyboardInterrupt:  # uvicorn passes on what ended it
                return


class _Server(uvicorn.Server):
    """Removes the file with the token before uvicorn passes on the signal that ended it."""

    def __init__(self, settings: uvicorn.Config, opening: Opening) -> None:
        super().__init__(settings)
        self._opening = opening

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._opening.close()
        await super().shutdown(sockets)


def _try(database: str) -> None:
    """Tell at once what is wrong, rather than on a page."""
    with connect(database, connect_timeout=10, fallback_application_name="pgq ui") as client:
        client.version()


def _listening(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, place = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return listener


def _address(host: str, port: int) -> str:
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
