"""A server's data folder and the process that works on it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgq.embedded._account import Account
from pgq.embedded._errors import EmbeddedServerError
from pgq.embedded._lock_file import LockFile
from pgq.embedded._memory import SharedMemory
from pgq.embedded._processes import kill_tree, wait_until
from pgq.embedded._runtime import Layout

__all__ = [
    "becomes_ready",
    "configure",
    "crash",
    "free_port",
    "initialise",
    "launch",
    "process_options",
    "shut_down",
]

_START_TIMEOUT = 60.0


def initialise(data: Path, layout: Layout, account: Account) -> None:
    """Make an empty cluster, whose settings come from a file of ours."""
    data.mkdir(mode=0o700, exist_ok=True)
    account.own(data)
    result = subprocess.run(
        [
            layout.bin / "initdb",
            *("-D", data, "-U", "postgres", "-A", "trust"),
            *("-E", "UTF8", "--locale=C", "--no-sync"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=data.parent,
        **process_options(account),
    )
    if result.returncode != 0:
        raise EmbeddedServerError(f"initdb failed: {result.stderr.strip()}")
    with (data / "postgresql.conf").open("a") as configuration:
        configuration.write("\ninclude = 'pgq.conf'\n")


def configure(data: Path, settings: Mapping[str, str]) -> None:
    """Set what the next start goes by."""
    lines = [
        f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in settings.items()
    ]
    (data / "pgq.conf").write_text("\n".join(lines) + "\n")


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def launch(data: Path, layout: Layout, account: Account, log: Path) -> subprocess.Popen[bytes]:
    """Start the server, whose messages are added to the log."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [layout.bin / "postgres", "-D", data],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=data.parent,
            start_new_session=True,
            **process_options(account),
        )


def becomes_ready(process: subprocess.Popen[bytes], data: Path) -> bool:
    """Wait until the server answers; False when it has ended, or takes too long."""

    def answered() -> bool:
        note = LockFile.of(data)
        ready = note is not None and note.pid == process.pid and note.ready
        return ready or process.poll() is not None

    return wait_until(answered, _START_TIMEOUT) and process.poll() is None


def shut_down(process: subprocess.Popen[bytes], data: Path) -> SharedMemory:
    """Stop a server, aborting open transactions; returns what it left in memory."""
    for action, patience in ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0)):
        if process.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(action)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    return crash(process, data)


def crash(process: subprocess.Popen[bytes], data: Path) -> SharedMemory:
    """Kill a server that still runs; returns what it left in memory."""
    if process.poll() is not None:
        return SharedMemory()
    left = kill_tree(process.pid, data)
    process.wait()
    return left


def process_options(account: Account) -> dict[str, Any]:
    """How the server's programs are run: as its user, without settings of the caller's."""
    # settings of the caller's own psql must not reach the server
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PG") and name not in ("LC_ALL", "LANG", "LANGUAGE")
    }
    return {**account.process_options(), "env": {**environment, "LC_ALL": "C"}}
