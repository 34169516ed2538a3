"""The embedded server: choice of binaries, life, crash, and what it leaves behind."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest

from pgq.embedded import EmbeddedServerError, Server, find_binaries
from pgq.embedded._account import Account
from pgq.embedded._leftovers import make_folder, sweep
from pgq.embedded._processes import alive
from support.waiting import wait_until

StartServer = Callable[..., Server]

# a program that starts a server, tells where it is, and waits to be ended
# what nohup has it ignore would be ignored by the program as well
_PROGRAM = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from pgq.embedded import Server
server = Server(bin_dir=Path(sys.argv[1])).start()
print(server.directory, server.pid, flush=True)
time.sleep(60)
"""

# its own signals do not end it, as those of the first process of a container
_SPARED = """
import os
kill = os.kill
os.kill = lambda pid, number: None if pid == os.getpid() else kill(pid, number)
"""


def _start_program(server: Server, before: str = "") -> tuple[subprocess.Popen[str], Path, int]:
    process = subprocess.Popen(
        [sys.executable, "-c", before + _PROGRAM, str(server.bin_dir)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    directory, pid = process.stdout.readline().split()
    return process, Path(directory), int(pid)


def test_a_temporary_server_leaves_nothing(server: Server) -> None:
    with Server(bin_dir=server.bin_dir) as own:
        directory, pid = own.directory, own.pid
        with psycopg.connect(own.dsn) as connection:
            assert connection.info.server_version // 10000 == own.major
    assert not directory.exists()
    assert pid is not None
    assert not alive(pid)
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
        family = [psutil.Process(own.pid), *psutil.Process(own.pid).children()]
        files = _dynamic_memory(family)
        key = int((own.data_directory / "postmaster.pid").read_text().splitlines()[6].split()[0])
        own.kill()
        assert [process for process in family if alive(process.pid)] == []
    assert files
    assert [file for file in files if file.exists()] == []
    assert ctypes.CDLL(None).shmget(ctypes.c_int(key), 0, 0) == -1


def _dynamic_memory(processes: list[psutil.Process]) -> set[Path]:
    mapped = {Path(entry.path) for process in processes for entry in process.memory_maps()}
    return {file for file in mapped if file.match("/dev/shm/PostgreSQL.*")}


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


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_server_too(server: Server, number: signal.Signals) -> None:
    process, directory, pid = _start_program(server)
    process.send_signal(number)
    status = process.wait(20)
    assert status in (-number, 1)  # 1: KeyboardInterrupt
    assert not alive(pid)
    assert not directory.exists()


@pytest.mark.slow
def test_the_first_process_of_a_container_ends_by_a_signal_too(server: Server) -> None:
    process, directory, pid = _start_program(server, _SPARED)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert not alive(pid)
    assert not directory.exists()


@pytest.mark.slow
def test_what_a_killed_python_left_is_swept(server: Server) -> None:
    process, directory, pid = _start_program(server)
    process.kill()
    process.wait(20)
    assert directory.exists()
    with Server(bin_dir=server.bin_dir):
        wait_until(lambda: not alive(pid), what="for the orphan to end")
        assert not directory.exists()


def test_what_is_swept_may_name_a_process_that_is_no_server() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        folder = _left_folder(f"{stranger.pid}\n")
        sweep()
        assert not folder.exists()
        assert stranger.poll() is None
        stranger.communicate(b"\n")


def test_what_a_killed_initdb_left_is_swept() -> None:
    folder = _left_folder("-5703\n")  # the server of one session that it starts writes so
    sweep()
    assert not folder.exists()


def test_what_another_container_made_is_left_alone() -> None:
    folder = _left_folder("5703\n")
    note = folder / "owner.pid"
    note.write_text(f"{note.read_text().split()[0]} pid:[1]\n")
    sweep()
    assert folder.exists()
    shutil.rmtree(folder)


def _left_folder(lock_file: str) -> Path:
    """The folder of a server whose Python has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder = make_folder(ended.pid, Account(os.geteuid(), os.getegid(), switch=False))
    (folder / "data").mkdir()
    (folder / "data" / "postmaster.pid").write_text(lock_file)
    return folder


def test_a_folder_that_the_servers_user_cannot_reach_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(EmbeddedServerError, match=f"nobody, who cannot reach {tmp_path}: .*TMPDIR"):
        Account(65534, 65534, switch=True).require(tmp_path)


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


def test_one_that_wants_a_password(server: Server) -> None:
    """Without its file nobody gets in, by TCP or by the socket; data that is there stays."""
    with tempfile.TemporaryDirectory(prefix="pgq-test-") as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "here it's"
        with Server(folder, bin_dir=server.bin_dir) as open_to_all:
            assert open_to_all.password_file is None
            with psycopg.connect(open_to_all.dsn, autocommit=True) as connection:
                connection.execute("create table kept as select 1 as one")
        with Server(folder, bin_dir=server.bin_dir, password=True) as own:
            file = own.password_file
            assert file is not None
            assert file.stat().st_mode & 0o777 == 0o600
            password = file.read_text().strip().rpartition(":")[2]
            assert password not in own.dsn + own.log_file.read_text()
            with psycopg.connect(own.dsn) as connection:
                assert connection.execute("select one from kept").fetchone() == (1,)
            for host in (own.host, own.socket_directory):
                place = f"host='{_quoted(host)}' port={own.port} user=postgres dbname=postgres"
                with pytest.raises(psycopg.OperationalError, match="no password supplied"):
                    psycopg.connect(place)
                with pytest.raises(psycopg.OperationalError, match="authentication failed"):
                    psycopg.connect(place, password="guessed")
                psycopg.connect(place, password=password).close()
            assert own.run("psql", "-XAtc", "select 1").stdout == "1\n"
            dsn = own.restart().dsn
            psycopg.connect(dsn).close()
        with Server(folder, bin_dir=server.bin_dir, password=True) as again:
            psycopg.connect(again.dsn).close()
            assert file.read_text().strip().endswith(password)


def _quoted(host: object) -> str:
    return str(host).replace("\\", "\\\\").replace("'", "\\'")
