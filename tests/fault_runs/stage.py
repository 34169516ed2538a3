"""What a fault run plays on: servers, what stands before them, and the clients."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fault_runs.house import install
from fault_runs.journal import entries
from fault_runs.run_client import run_client
from fault_runs.scenes import PRODUCING, SPARK, Scene
from fault_runs.streams import COPIES
from fault_runs.wire import Wire
from pgq.embedded import Server
from support.clock import Clock
from support.pooler import PgBouncer
from support.waiting import wait_until

__all__ = ["Stage"]

SETTINGS = {
    # a process that dies takes nothing of the system's memory with it
    "fsync": "off",
    "max_connections": "100",
    "max_wal_senders": "4",
    "client_connection_check_interval": "50ms",
    "autovacuum_naptime": "1s",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
}

DISK = "400m"
"""How large the disk is that gets full."""


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["fault_runs.run_client"])


@dataclass
class Running:
    """A client, and the how manieth of its name it is."""

    kind: str
    process: ForkServerProcess
    life: int
    pooled: bool


class Stage:
    """The servers and clients of a run, as a context manager; all files go below a folder."""

    def __init__(self, scene: Scene, folder: Path, seed: str) -> None:
        self.scene = scene
        self.folder = folder
        self.clock: Clock
        self.pooler: PgBouncer
        self.wires: list[Wire] = []
        self._seed = seed
        self._lives = 0
        self._nodes = 0
        self._clients: dict[str, Running] = {}
        self._stack = ExitStack()
        self._standby: Server | None = None
        self.server: Server

    def __enter__(self) -> Stage:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop_clients()
        self._stack.close()

    def _build(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "journals").mkdir()
        if self.scene.small_disk:
            self._mount()
        self.server = self._start_node()
        self._stack.callback(lambda: self.server.stop())
        self.clock = install(self.direct, self.scene.spark)
        if self.scene.standby:
            self._stack.callback(lambda: self._standby and self._standby.stop())
            self._attach_standby()
        # Spark has one of its own, since it commits a hundredth of what the others do
        for _ in range(2 if self.scene.spark else 1):
            self.wires.append(Wire(self.server.port, self._seed))
            self._stack.callback(self.wires[-1].close)
        self.pooler = PgBouncer(self.wired, "server_login_retry = 0.1\nquery_wait_timeout = 10")
        self._stack.callback(self.pooler.close)
        self.pooler.start()
        self.hold_producers(self.scene.spark)
        for place, kind in enumerate(self.scene.roster):
            before = self.scene.roster[:place].count(kind)
            self._launch(f"{kind}{before + 1}", kind, before == 1)
        for name in self._clients:
            wait_until(lambda: self.journal(name).exists(), 60, f"for {name}")  # noqa: B023
        if self.scene.spark:
            wait_until(lambda: self.begun("stream") == len(COPIES), 120, "for Spark's streams")
            self.hold_producers(False)

    # ------------------------------------------------------------------ servers

    @property
    def direct(self) -> str:
        """How to come to the server itself."""
        return self.server.dsn

    @property
    def wired(self) -> str:
        """How clients come to it."""
        return self._through(self.wires[0])

    def _through(self, wire: Wire) -> str:
        return make_conninfo(host="127.0.0.1", port=wire.port, user="postgres", dbname="postgres")

    @contextmanager
    def observe(self) -> Iterator[psycopg.Connection[Any]]:
        """A session of our own, as soon as the server is there."""

        def connected() -> psycopg.Connection[Any] | None:
            try:
                return psycopg.connect(self.direct, autocommit=True)
            except psycopg.OperationalError:
                return None

        connection = wait_until(connected, 60, "for the server to come back")
        assert connection is not None
        with contextlib.closing(connection):
            yield connection

    def crash(self) -> None:
        """Kill the server with all its processes, and start it again."""
        self.server.kill()
        with self._false_time():
            self.server.restart()

    def tell_true_time(self) -> None:
        """From now on the server looks at the clock of the machine."""
        if self.scene.false_time:
            self.server.kill()
            self.server.restart()

    def fail_over(self) -> None:
        """Kill the primary, and have the standby take its place."""
        former, standby = self.server, self._standby
        assert standby is not None
        former.kill()
        standby.run("psql", "-X", "-c", "select pg_promote()")
        self.server = standby
        self._standby = None
        self.clock = Clock(self.direct)
        for wire in self.wires:
            wire.target = standby.port
        directory = former.directory
        former.stop()
        shutil.rmtree(directory, ignore_errors=True)
        self._attach_standby()

    def _start_node(self, copy_of: Server | None = None) -> Server:
        self._nodes += 1
        folder = self._place() / f"node{self._nodes}"
        if copy_of is not None:
            folder.mkdir()
            shutil.chown(folder, copy_of.directory.owner(), copy_of.directory.group())
            copy_of.run(
                "pg_basebackup",
                *("-D", folder / "data", "--write-recovery-conf", "--checkpoint=fast"),
                as_owner=True,
            )
        server = Server(folder, settings=SETTINGS)
        with self._false_time():
            return server.start()

    def _place(self) -> Path:
        return self.folder / "disk" if self.scene.small_disk else self.folder

    def _attach_standby(self) -> None:
        with psycopg.connect(self.direct, autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = '*'")
            self._standby = self._start_node(self.server)
            connection.execute("select pg_reload_conf()")

            def synchronous() -> bool:
                [(count,)] = connection.execute(
                    "select count(*) from pg_stat_replication where sync_state = 'sync'"
                ).fetchall()
                return bool(count)

            wait_until(synchronous, 60, "for the standby to be synchronous")

    # ------------------------------------------------------------------ the disk

    def _mount(self) -> None:
        disk = self.folder / "disk"
        disk.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0755", "tmpfs", disk], check=True
        )
        self._stack.callback(lambda: subprocess.run(["umount", "--lazy", disk], check=True))

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Leave no room on the disk; the server is there again at the end."""
        ballast = self.folder / "disk" / "ballast"
        # it may be full already
        with contextlib.suppress(OSError), ballast.open("wb") as file:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
        try:
            yield
        finally:
            ballast.unlink(missing_ok=True)
            if not self.server.running:
                self.server.restart()

    # ------------------------------------------------------------------ the time

    @contextmanager
    def _false_time(self) -> Iterator[None]:
        """Have what is started meanwhile look at a clock of ours, if the scene says so."""
        if not self.scene.false_time:
            yield
            return
        library = self.folder / "clock.so"
        if not library.exists():
            source = Path(__file__).with_name("clock.c")
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
            library.chmod(0o755)
            self.step_server_clock(0)
        settings = {"LD_PRELOAD": str(library), "SERVER_CLOCK": str(self.folder / "clock")}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            yield

    def step_server_clock(self, seconds: float) -> None:
        """Let the server's clock be so far ahead of the true one."""
        path = self.folder / "clock"
        # in place, since the server's processes have mapped it
        with path.open("r+b" if path.exists() else "wb") as file:
            file.write(struct.pack("=q", round(seconds * 1_000_000)))
        path.chmod(0o644)

    # ------------------------------------------------------------------ clients

    def names(self) -> list[str]:
        """The clients that run."""
        return list(self._clients)

    def journal(self, name: str) -> Path:
        """What a client, and those of its name before, have written down."""
        return self.folder / "journals" / name

    def begun(self, role: str) -> int:
        """How many streams, or batches, the Spark driver has begun since it was started last."""
        life = f"{SPARK}.{self._clients[SPARK].life}/"
        found = [e for e in entries(self.journal(SPARK)) if e["unit"].startswith(life)]
        return sum(entry.get("role") == role for entry in found)

    def _launch(self, name: str, kind: str, pooled: bool, life: int = 1) -> None:
        self._lives += 1
        dsn = self.pooler.dsn if pooled else self._through(self.wires[-(kind == "spark")])
        process = FORKS.Process(
            target=run_client,
            args=(
                *(kind, f"{name}.{life}", dsn),
                *(str(self.journal(name)), f"{self._seed}/{self._lives}"),
                # how many jobs of a replacer wait is bounded by its keys
                str(self._enough) if kind in PRODUCING and kind != "replacer" else None,
            ),
            daemon=True,
        )
        process.start()
        self._clients[name] = Running(kind, process, life, pooled)

    @property
    def _enough(self) -> Path:
        """A file that is there while those who produce are to wait."""
        return self.folder / "enough"

    def hold_producers(self, hold: bool) -> None:
        """Have those that produce wait before their next step, or go on."""
        if hold:
            self._enough.touch()
        else:
            self._enough.unlink(missing_ok=True)

    def restart(self, name: str) -> str:
        """Kill a client with -9, and start another in its place; tells its kind."""
        running = self._clients[name]
        _kill(running.process)
        self._launch(name, running.kind, running.pooled, running.life + 1)
        return running.kind

    def ended_by_themselves(self) -> list[str]:
        """Clients that are not there any more though nobody killed them."""
        return [name for name, each in self._clients.items() if not each.process.is_alive()]

    def end_producers(self, patience: float) -> list[str]:
        """Have those that produce end what they have begun; tells who did not, and who waits."""
        producers = {n: each for n, each in self._clients.items() if each.kind in PRODUCING}
        for each in producers.values():
            each.process.terminate()
        deadline = time.monotonic() + patience
        stuck = []
        for name, each in producers.items():
            each.process.join(max(0.1, deadline - time.monotonic()))
            if each.process.is_alive():
                stuck.append(f"{name} did not end; sessions: {self._sessions()}")
                _kill(each.process)
            del self._clients[name]
        return stuck

    def _sessions(self) -> list[tuple[Any, ...]]:
        """What sessions of clients do and wait for, and who is in their way."""
        with self.observe() as connection:
            return connection.execute(
                "select pid, state, wait_event_type, wait_event, pg_blocking_pids(pid),"
                " xact_start, left(query, 120) from pg_stat_activity"
                " where application_name = 'pgq_fault_run' and state <> 'idle'"
            ).fetchall()

    def stop_clients(self) -> None:
        """Kill all that are left."""
        for each in self._clients.values():
            _kill(each.process)
        self._clients.clear()


def _kill(process: ForkServerProcess) -> None:
    """Kill a client, and first what it has started: Spark's JVM and its workers."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.join()
