"""A Prometheus that scrapes one place."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from pgq.embedded._cluster import free_port
from support.waiting import PATIENCE, wait_until

__all__ = ["Prometheus", "program"]


def program(name: str) -> str:
    """Where a program of Prometheus is; skips the test where it is not."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: on Debian, apt-get install prometheus")
    return found


class Prometheus:
    """The server, as a context manager; it has the alert rules, and scrapes all the time."""

    def __init__(self, target: str, folder: Path, rules: Path) -> None:
        self._program = program("prometheus")
        self._folder = folder
        self._url = f"http://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "prometheus.yml").write_text(
            json.dumps(  # which is YAML
                {
                    "global": {"scrape_interval": "500ms", "evaluation_interval": "1s"},
                    "rule_files": [str(rules)],
                    "scrape_configs": [
                        {"job_name": "pgq", "static_configs": [{"targets": [target]}]}
                    ],
                }
            )
        )

    def __enter__(self) -> Prometheus:
        self._process = subprocess.Popen(
            [
                self._program,
                f"--config.file={self._folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address={urllib.parse.urlsplit(self._url).netloc}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=(self._folder / "log").open("wb"),
        )
        wait_until(self._answers, PATIENCE, "for Prometheus to answer")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE)

    def get(self, path: str, **arguments: str) -> Any:
        """What its API answers."""
        query = urllib.parse.urlencode(arguments)
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{query}", timeout=30) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def query(self, expression: str) -> list[Any]:
        """The series of an expression at this moment."""
        found: list[Any] = self.get("query", query=expression)["result"]
        return found

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            return self.query("vector(1)") != []
        except OSError:
            return False
