"""PostgREST, the way to pgq over HTTP."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from pgq.embedded._cluster import free_port
from support.house import ROOT
from support.waiting import wait_until

__all__ = ["Postgrest"]


class Postgrest:
    """A PostgREST that serves a schema of one database, by default pgq, as a context manager.

    Every request runs as ``role``, which must be one that ``dsn``'s user may become, or as the one
    that its token names, where ``secret`` is what tokens are signed with.
    """

    def __init__(
        self,
        dsn: str,
        *,
        role: str = "postgres",
        schema: str = "pgq",
        secret: str | None = None,
        log: Path | None = None,
    ) -> None:
        self._dsn = dsn
        self._role = role
        self._schema = schema
        self._secret = secret
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @staticmethod
    def binary() -> Path | None:
        """PGQ_POSTGREST, what ``make postgrest`` fetched, or what is on the path."""
        named = os.environ.get("PGQ_POSTGREST")
        if named:
            return Path(named)
        fetched = ROOT / ".cache" / "postgrest" / "postgrest"
        if fetched.exists():
            return fetched
        on_path = shutil.which("postgrest")
        return Path(on_path) if on_path else None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Postgrest:
        program = self.binary()
        assert program is not None, "no PostgREST: run make postgrest"
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PGRST_DB_URI": self._dsn,
            "PGRST_DB_SCHEMAS": self._schema,
            "PGRST_DB_EXTRA_SEARCH_PATH": "",
            "PGRST_DB_ANON_ROLE": self._role,
            "PGRST_DB_POOL": "4",
            "PGRST_SERVER_HOST": "127.0.0.1",
            "PGRST_SERVER_PORT": str(self.port),
        }
        if self._secret is not None:
            environment["PGRST_JWT_SECRET"] = self._secret
        output = self._log.open("wb") if self._log else subprocess.DEVNULL
        self._process = subprocess.Popen(
            [program], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        wait_until(self._answers, 30.0, "for PostgREST to answer")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)

    def _answers(self) -> bool:
        # 503 while the schema cache is loading
        assert self._process is not None
        assert self._process.poll() is None, "PostgREST ended"
        try:
            with urllib.request.urlopen(self.url, timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False
