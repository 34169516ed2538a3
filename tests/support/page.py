"""The page of ``pgq ui`` as it is served, and a client that has its token."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette

from pgq.ui import create_app
from support.waiting import PATIENCE, wait_until

__all__ = ["EVIL", "TOKEN", "Page", "go"]

TOKEN = "a-token-that-only-the-tests-have"
EVIL = '<img src=x onerror="window.caught=1"><script>window.caught=1</script>"\'`${1}{{1}}'
"""A text that tries to be markup, a script or a template."""


class Page:
    """A server in a thread of its own."""

    def __init__(
        self,
        dsn: str,
        *,
        read_only: bool = False,
        interval: float = 0.1,
        app: Starlette | None = None,
    ) -> None:
        if app is None:
            app = create_app(dsn, token=TOKEN, read_only=read_only, interval=interval)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.address}/#token={TOKEN}"
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, ws="none", lifespan="on")
        )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True
        )
        self.client = httpx.Client(
            base_url=self.address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE
        )

    def __enter__(self) -> Page:
        self._thread.start()
        wait_until(lambda: self._server.started or not self._thread.is_alive())
        assert self._thread.is_alive()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._listener.close()
        assert not self._thread.is_alive()

    def ask(self, name: str, /, **parameters: Any) -> tuple[int, Any]:
        """The status and the document of a read."""
        answer = self.client.get(f"/api/{name}", params=parameters)
        return answer.status_code, answer.json()

    def read(self, name: str, /, **parameters: Any) -> Any:
        """The document of a read that goes well."""
        status, document = self.ask(name, **parameters)
        assert status == 200, document
        return document

    def do(self, name: str, /, **given: Any) -> tuple[int, Any]:
        """The status and the answer of an act."""
        answer = self.client.post(f"/api/act/{name}", json=given)
        return answer.status_code, answer.json()

    def act(self, name: str, /, **given: Any) -> str:
        """What is said of an act that goes well."""
        status, document = self.do(name, **given)
        assert status == 200, document
        said: str = document["said"]
        return said


def go(tab: Any, page: Page, place: str) -> None:
    """Go to a view in a tab of the browser."""
    tab.goto(f"{page.address}/#/{place}")
