"""The TypeScript of tests/drivers/node: compiled, and run."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.drivers import NODE, environment
from support.house import ROOT
from support.waiting import PATIENCE, aside, wait_until

__all__ = ["NodeWorker", "compiled", "node"]

_SOURCES = ROOT / "tests" / "drivers" / "node"


def node() -> str:
    """The program; skips where it or what it needs is missing."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("no node: on Debian, apt-get install nodejs")
    if not (NODE / "node_modules" / "typescript").is_dir():
        pytest.skip("no TypeScript: python/tools/node_drivers.sh fetches it")
    return program


@contextmanager
def compiled() -> Iterator[Path]:
    """A folder with the programs in JavaScript, below that of their modules."""
    program = node()
    with tempfile.TemporaryDirectory(dir=NODE, prefix="build-") as name:
        folder = Path(name)
        for path in (*_SOURCES.glob("*.ts"), _SOURCES / "tsconfig.json"):
            shutil.copy(path, folder)
        (folder / "package.json").write_text('{"type": "module"}')
        compiler = NODE / "node_modules" / "typescript" / "bin" / "tsc"
        done = subprocess.run(
            [program, str(compiler), "-p", name], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        yield folder


class NodeWorker:
    """A process of program.ts; ``events`` are the lines that it has printed."""

    def __init__(self, folder: Path, dsn: str, queue: str, **options: Any) -> None:
        self.events: list[tuple[str, int, int]] = []
        self._signals = 0
        self.process = subprocess.Popen(
            [node(), str(folder / "program.js"), queue, json.dumps(options)],
            env=environment(dsn),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read = aside(self._follow)

    def _follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event, *job = json.loads(line).values()
            if event == "SIGTERM":
                self._signals += 1
            else:
                self.events.append((event, *job))

    def wait_for(self, event: str, job_id: int, attempt: int = 1) -> None:
        """Wait until it has said so."""
        wanted = (event, job_id, attempt)
        wait_until(lambda: wanted in self.events, PATIENCE, f"for {wanted}")

    def open_gate(self) -> None:
        """Let the handlers that wait go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """Send SIGTERM, and wait until it has come: two at once may count as one."""
        before = self._signals
        self.process.send_signal(signal.SIGTERM)
        wait_until(lambda: self._signals > before, PATIENCE, "for a signal to come")

    def join(self) -> None:
        """Wait until it has ended by itself, without an error."""
        assert self.process.wait(PATIENCE) == 0
        self._read.result(PATIENCE)

    def __enter__(self) -> NodeWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
