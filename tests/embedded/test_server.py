"""The embedded server: choice of binaries, life, crash, and what it leaves behind."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from pgq.embedded import EmbeddedServerError, Server, find_binaries, target
from support import wait_until

StartServer = Callable[..., Server]

# a program that starts a server, tells where it is, and waits to be ended
_PROGRAM = """
import sys, time
from pathlib import Path
from pgq.embedded import Server
server = Server(bin_dir=Path(sys.argv[1])).start()
print(server.directory, server.pid, flush=True)
time.sleep(60)
"""


def _start_program(server: Server) -> tuple[subprocess.Popen[str], Path, int]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(server.bin_dir)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    directory, pid = process.stdout.readline().split()
    return process, Path(directory), int(pid)


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_temporary_server_leaves_nothing(server: Server) -> None:
    with Server(bin_dir=server.bin_dir) as own:
        directory, pid = own.directory, own.pid
        with psycopg.connect(own.dsn) as connection:
            assert connection.info.server_version // 10000 == own.major
    assert not directory.exists()
    assert pid is not None
    assert _gone(pid)
    own.stop()  # once more does no harm


def test_settings_reach_the_server(start_server: StartServer) -> None:
    own = start_server(settings={"work_mem": "7MB", "application_name": "it's"})
    with psycopg.connect(own.dsn) as connection:
        assert connection.execute("show work_mem").fetchone() == ("7MB",)


def test_a_crash_keeps_what_was_committed_and_the_address(start_server: StartServer) -> None:
    own = start_server()
    dsn = own.dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table kept as select 1 as one")
        own.kill()
        assert not own.running
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
    own.start()
    assert own.dsn == dsn
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select one from kept").fetchone() == (1,)


def test_a_crashed_server_leaves_no_shared_memory(server: Server) -> None:
    with Server(bin_dir=server.bin_dir) as own:
        maps = Path(f"/proc/{own.pid}/maps").read_text().split()
        own.kill()
    files = [Path(word) for word in maps if word.startswith("/dev/shm/PostgreSQL.")]
    segments = {word.removeprefix("/SYSV") for word in maps if word.startswith("/SYSV")}
    assert segments
    assert [file for file in files if file.exists()] == []
    listed = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    assert segments & {f"{int(line.split()[0]) & 0xFFFFFFFF:08x}" for line in listed} == set()


def test_a_restart_keeps_the_address(start_server: StartServer) -> None:
    own = start_server()
    dsn = own.dsn
    own.restart()
    assert own.dsn == dsn
    assert own.run("psql", "-XAtc", "select 1").stdout == "1\n"


def test_a_lasting_directory_is_continued(server: Server) -> None:
    # not tmp_path, which only its owner may enter
    with tempfile.TemporaryDirectory(prefix="pgq-test-") as parent:
        Path(parent).chmod(0o755)
        directory = Path(parent) / "lasting"
        with Server(directory, bin_dir=server.bin_dir) as own:
            own.run("psql", "-Xc", "create table kept ()")
            with pytest.raises(EmbeddedServerError, match="already runs"):
                Server(directory, bin_dir=server.bin_dir).start()
            assert own.run("psql", "-XAtc", "select 1").stdout == "1\n"
        with Server(directory, bin_dir=server.bin_dir) as own:
            own.run("psql", "-Xc", "table kept")
        assert sorted(path.name for path in directory.iterdir()) == ["data", "server.log"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_server_too(server: Server, number: signal.Signals) -> None:
    process, directory, pid = _start_program(server)
    process.send_signal(number)
    status = process.wait(20)
    assert status in (-number, 1)  # 1: KeyboardInterrupt
    assert _gone(pid)
    assert not directory.exists()


def test_what_a_killed_python_left_is_swept(server: Server) -> None:
    process, directory, pid = _start_program(server)
    process.kill()
    process.wait(20)
    assert directory.exists()
    with Server(bin_dir=server.bin_dir):
        wait_until(lambda: _gone(pid), what="for the orphan to end")
        assert not directory.exists()


def test_a_forked_child_does_not_stop_its_parents_server(start_server: StartServer) -> None:
    own = start_server()
    child = os.fork()
    if child == 0:
        own.stop()
        os._exit(0)
    os.waitpid(child, 0)
    assert own.run("psql", "-XAtc", "select 1").stdout == "1\n"


def test_an_extension_is_known_to_its_server_alone(
    start_server: StartServer, server: Server, tmp_path: Path
) -> None:
    control, script = tmp_path / "tiny.control", tmp_path / "tiny--1.sql"
    control.write_text("default_version = '1'\n")
    script.write_text("create schema tiny;\n")
    own = start_server()
    own.install_extension(control, [script])
    own.run("psql", "-Xc", "create extension tiny")
    known = "select count(*) from pg_available_extensions where name = 'tiny'"
    assert own.run("psql", "-XAtc", known).stdout == "1\n"
    assert server.run("psql", "-XAtc", known).stdout == "0\n"


def test_a_failing_program_says_why(server: Server) -> None:
    with pytest.raises(EmbeddedServerError, match="no_such_table"):
        server.run("psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", "table no_such_table")


def test_a_server_that_cannot_start_says_why(server: Server) -> None:
    own = Server(bin_dir=server.bin_dir, settings={"shared_buffers": "nonsense"})
    with pytest.raises(EmbeddedServerError, match="shared_buffers"):
        own.start()
    with pytest.raises(EmbeddedServerError, match="has not been started"):
        _ = own.port


def test_binaries_are_chosen_in_order(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGQ_PG_BIN", str(server.bin_dir))
    assert find_binaries() == server.bin_dir
    assert find_binaries(server.major) == server.bin_dir
    with pytest.raises(EmbeddedServerError, match="no PostgreSQL 9 found"):
        find_binaries(9)
    monkeypatch.setenv("PGQ_PG_BIN", "/nowhere")
    with pytest.raises(EmbeddedServerError, match="PGQ_PG_BIN"):
        find_binaries()


def test_a_user_without_a_name_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(EmbeddedServerError, match=r"12345 has no entry in /etc/passwd"):
        Server(bin_dir=server.bin_dir).start()


def test_target_prefers_the_given_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/db")
    with target() as dsn:
        assert dsn == "postgresql://elsewhere/db"
