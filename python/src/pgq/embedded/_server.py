"""The server itself: what it is, its life, and what can be done with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from pgq.embedded._account import Account
from pgq.embedded._at_exit import forget, watch
from pgq.embedded._binaries import client_program, find_binaries, major_of
from pgq.embedded._cluster import (
    becomes_ready,
    configure,
    crash,
    free_port,
    initialise,
    launch,
    shut_down,
)
from pgq.embedded._errors import EmbeddedServerError
from pgq.embedded._leftovers import make_folder, release, sweep, take_over
from pgq.embedded._memory import SharedMemory
from pgq.embedded._password import HBA, protect
from pgq.embedded._runtime import Layout, build_runtime

__all__ = ["Server"]


class Server:
    """A private PostgreSQL server.

    Without a directory the server is temporary and leaves nothing behind; with one, its data stays
    there and the next ``Server`` on that directory continues with it. Use it as a context manager,
    or call :meth:`start` and :meth:`stop`; what is still running when Python exits, or is told to
    by a signal, is stopped then. What a killed Python left behind is removed at the next start.

    It trusts everybody who can reach it on this machine, unless a ``password`` is wanted: that is a
    random one, in :attr:`password_file`, which :attr:`dsn` names.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        password: bool = False,
    ) -> None:
        self._source = Path(bin_dir) if bin_dir is not None else find_binaries()
        found = major_of(self._source)
        if found is None:
            raise EmbeddedServerError(f"{self._source} holds no usable postgres and initdb")
        self._major = found
        self._settings = dict(settings or {})
        self._password = password
        self._temporary = directory is None
        self._directory: Path | None = None if directory is None else Path(directory).absolute()
        self._runtime: Path | None = None
        self._layout: Layout | None = None
        self._account: Account | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port: int | None = None
        self._left_behind = SharedMemory()
        self._owner = os.getpid()
        self._stopping = threading.RLock()  # a signal may come while stop() is under way

    # ------------------------------------------------------------------ what it is

    @property
    def host(self) -> str:
        """The address the server listens on."""
        return "127.0.0.1"

    @property
    def port(self) -> int:
        """The port the server listens on; kept over :meth:`restart` and :meth:`kill`."""
        if self._port is None:
            raise EmbeddedServerError("the server has not been started")
        return self._port

    @property
    def dsn(self) -> str:
        """A connection string of the superuser for the database postgres."""
        return self.dsn_for("postgres")

    def dsn_for(self, database: str) -> str:
        """A connection string of the superuser for any database."""
        address = f"postgresql://postgres@{self.host}:{self.port}/{database}"
        file = self.password_file
        return address if file is None else f"{address}?passfile={quote(str(file), safe='/')}"

    @property
    def major(self) -> int:
        """The major version, 18 for PostgreSQL 18.4."""
        return self._major

    @property
    def bin_dir(self) -> Path:
        """The folder that the programs were found in."""
        return self._source

    @property
    def directory(self) -> Path:
        """The folder with the server's data, log and socket."""
        if self._directory is None:
            raise EmbeddedServerError("the server has not been started")
        return self._directory

    @property
    def data_directory(self) -> Path:
        """The cluster's data folder."""
        return self.directory / "data"

    @property
    def log_file(self) -> Path:
        """The server's log."""
        return self.directory / "server.log"

    @property
    def password_file(self) -> Path | None:
        """The file for libpq's ``passfile``; None where no password is wanted."""
        return self.directory / "passfile" if self._password else None

    @property
    def socket_directory(self) -> Path | None:
        """The folder of the Unix socket, or None where its path would be too long for one."""
        return self.directory if len(str(self.directory)) < 80 else None

    @property
    def running(self) -> bool:
        """Whether the postmaster is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The postmaster's process id while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    # ------------------------------------------------------------------ life

    def start(self) -> Server:
        """Create the cluster when there is none yet, start the server, wait until it answers."""
        if self.running:
            return self
        self._account = Account.current()
        sweep()
        if self._directory is None:
            self._directory = make_folder(self._owner, self._account)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._account.require(self._directory)
        self._account.own(self._directory)
        take_over(self._directory, self._owner)
        watch(self)
        try:
            if self._layout is None:
                self._runtime = make_folder(self._owner, self._account)
                self._layout = build_runtime(self._source, self._runtime, self._account)
            if not (self.data_directory / "PG_VERSION").exists():
                initialise(self.data_directory, self._layout, self._account)
            self._launch(self._layout, self._account)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the server (aborting open transactions); delete what is temporary."""
        if os.getpid() != self._owner:  # a forked child must not end its parent's server
            return
        with self._stopping:
            self._shut_down()
            if self._temporary:
                self._left_behind.remove()
                if self._directory is not None:
                    shutil.rmtree(self._directory, ignore_errors=True)
                    self._directory = None
                self._port = None
            elif self._directory is not None:
                release(self._directory)
            if self._runtime is not None:
                shutil.rmtree(self._runtime, ignore_errors=True)
                self._runtime = None
            self._layout = None
        forget(self)

    def kill(self) -> None:
        """Crash the server: SIGKILL to the postmaster and all below it. The data stays."""
        if self._process is not None and self.running:
            self._left_behind = crash(self._process, self.data_directory)

    def restart(self) -> Server:
        """Stop the server if it runs and start it on the same data, settings and port."""
        self._shut_down()
        return self.start()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _launch(self, layout: Layout, account: Account) -> None:
        fixed = self._port if self._port is not None else self._settings.get("port")
        for attempt in range(5):
            port = int(fixed) if fixed is not None else free_port()
            configure(self.data_directory, self._configuration(port))
            if self.password_file is not None:
                protect(self.data_directory, layout, account, self.password_file)
            beginning = self.log_file.stat().st_size if self.log_file.exists() else 0
            self._process = launch(self.data_directory, layout, account, self.log_file)
            if becomes_ready(self._process, self.data_directory):
                self._port = port
                self._left_behind = SharedMemory()
                return
            self._shut_down()
            said = self.log_file.read_bytes()[beginning:].decode(errors="replace").strip()
            if fixed is None and attempt < 4 and "could not bind" in said:
                continue  # somebody took the free port in between
            raise EmbeddedServerError(f"the server did not start: {said[-2000:]}")

    def _configuration(self, port: int) -> dict[str, str]:
        sockets = self.socket_directory
        return {
            "listen_addresses": self.host,
            "unix_socket_directories": "" if sockets is None else str(sockets),
            "logging_collector": "off",
            "log_destination": "stderr",
            "log_line_prefix": "%m [%p] ",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **({"hba_file": str(self.data_directory / HBA)} if self._password else {}),
            **self._settings,
            "port": str(port),
        }

    def _shut_down(self) -> None:
        if self._process is None:
            return
        if self.running:
            self._left_behind = shut_down(self._process, self.data_directory)
        self._process = None

    # ------------------------------------------------------------------ what to do with it

    def tool(self, name: str) -> Path:
        """The path of a client program: the server's own, else that of the next newer server."""
        return client_program(name, self._source, self._major)

    def run(
        self,
        tool: str,
        *arguments: str | Path,
        check: bool = True,
        as_owner: bool = False,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a client program (psql, pg_dump, pg_basebackup …) and return what it printed.

        The environment points at this server as the superuser, so no connection options are
        needed. ``as_owner`` runs it as the operating-system user that the server runs as, for
        files which that user must own. Other options go to :func:`subprocess.run`.
        """
        program = self.tool(tool)
        environment = {
            **os.environ,
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": "postgres",
            **({} if self.password_file is None else {"PGPASSFILE": str(self.password_file)}),
            **(options.pop("env", None) or {}),
        }
        environment.setdefault("PGDATABASE", "postgres")
        if as_owner and self._account is not None and self._account.switch:
            own = self._private().bin / tool
            program = own if own.exists() else program
            options = {**self._account.process_options(), "cwd": self.directory, **options}
        result = subprocess.run(
            [program, *arguments],
            env=environment,
            text=True,
            check=False,
            **{"capture_output": True, **options},
        )
        if check and result.returncode != 0:
            raise EmbeddedServerError(
                f"{tool} ended with status {result.returncode}: {(result.stderr or '').strip()}"
            )
        return result

    def install_extension(self, control: Path, scripts: Sequence[Path]) -> None:
        """Make an extension known to this server alone, as ``make install`` would to all."""
        folder = self._private().share / "extension"
        for path in (control, *scripts):
            at = folder / Path(path).name
            at.unlink(missing_ok=True)
            shutil.copyfile(path, at)
            at.chmod(0o644)

    def _private(self) -> Layout:
        if self._layout is None:
            raise EmbeddedServerError("the server has not been started")
        return self._layout
