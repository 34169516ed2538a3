"""``pgq ui`` as a process: where it listens, what it prints, how it ends."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgq import Client
from support.command import PGQ
from support.waiting import PATIENCE

pytestmark = pytest.mark.slow

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(dsn: str) -> Iterator[Start]:
    """Start the command; what still runs at the end of the test is killed."""
    running = []

    def begin(*arguments: str, database: str = dsn) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*PGQ, "ui", "--no-browser", *arguments],
            env={**os.environ, "DATABASE_URL": database},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def opener(process: subprocess.Popen[str]) -> tuple[str, Path, list[str]]:
    """Where it is, the file that opens it, and what else it says; the token is not printed."""
    assert process.stdout is not None
    assert process.stderr is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    assert ready
    place = process.stdout.readline()
    told = process.stderr.readline()
    assert re.fullmatch(r"http://[^\s#]+\n", place), (place, told)
    found = re.fullmatch(r"pgq: (\S+) opens it, with its token\n", told)
    assert found, told
    lines = [*iter(process.stderr.readline, "pgq: Ctrl-C ends it\n")]
    return place.strip(), Path(found[1]), lines


def address(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Where it is, and its token."""
    place, file, _ = opener(process)
    found = re.search(rf'url={re.escape(place)}/#token=([\w-]{{32,}})"', file.read_text())
    assert found
    return place, found[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_file_that_opens_it(start: Start, number: int) -> None:
    """Others can neither read it nor list where it is; it goes with the server."""
    process = start()
    place, file, others = opener(process)
    assert others == []
    assert httpx.get(place).status_code == 200
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert not file.parent.exists()


def test_the_token_of_a_service(start: Start, tmp_path: Path) -> None:
    """It is made once, in a file that nobody else can read, and stays the same from then on."""
    file = tmp_path / "token"
    place, token = address(start("--token-file", str(file)))
    assert file.read_text() == f"{token}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.iterdir()] == [file]
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(place + "/api/about", headers=headers).status_code == 200
    assert address(start("--token-file", str(file)))[1] == token


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [
        (0o640, "a-token-of-somebody", "can be read or written by others: chmod 600 "),
        (0o602, "a-token-of-somebody", "can be read or written by others: chmod 600 "),
        (0o600, "short", "has no token: 16 letters"),
        (0o600, "a token of somebody", "has no token: 16 letters"),
    ],
)
def test_a_token_file_that_is_refused(
    start: Start, tmp_path: Path, mode: int, text: str, said: str
) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)
    process = start("--token-file", str(file))
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err.startswith(f"pgq: {file} {said}")) == (1, "", True), err
    assert file.read_text() == text


def test_on_a_terminal(dsn: str) -> None:
    """It prints the token there; a browser's command line is seen by all, and has a file."""
    screen, process_side = pty.openpty()
    process = subprocess.Popen(
        [*PGQ, "ui"],
        env={**os.environ, "DATABASE_URL": dsn, "BROWSER": "echo opens %s"},
        stdin=subprocess.DEVNULL,
        stdout=process_side,
        stderr=process_side,
    )
    os.close(process_side)
    said = ""
    try:
        while "opens" not in said or "Ctrl-C" not in said:
            ready, _, _ = select.select([screen], [], [], PATIENCE)
            assert ready, said
            said += os.read(screen, 4096).decode()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        os.close(screen)
    assert re.search(r"http://127\.0\.0\.1:\d+/#token=[\w-]{32,}\s", said)
    assert re.search(r"opens file:///\S+/open\.html\s", said)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_ended(start: Start, client: Client, number: int) -> None:
    process = start()
    place, token = address(process)
    assert place.startswith("http://127.0.0.1:")
    assert httpx.get(place + "/api/about").status_code == 401
    told = httpx.get(place + "/api/about", headers={"Authorization": f"Bearer {token}"}).json()
    assert told["database"] == client.connection.info.dbname
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == (0 if number == signal.SIGINT else -signal.SIGTERM)
    assert (out, err) == ("", "")
    other = start()
    assert address(other)[1] != token


def test_it_listens_on_this_machine_alone(start: Start) -> None:
    """Unless it is told to; then it says what that means."""
    port = int(address(start())[0].rpartition(":")[2])
    # each address of 127/8 is this machine; it listens at one of them
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=PATIENCE)
    process = start("--host", "0.0.0.0")
    place, file, [warning] = opener(process)
    assert "0.0.0.0 can be reached by others" in warning
    token = file.read_text().partition("#token=")[2].partition('"')[0]
    port = int(place.rpartition(":")[2])
    answer = httpx.get(
        f"http://127.0.0.2:{port}/api/about", headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 200


def test_only_showing(start: Start, client: Client) -> None:
    client.admin.create_queue("mail")
    place, token = address(start("--read-only"))
    answer = httpx.post(
        place + "/api/act/pause_queue",
        json={"queue": "mail"},
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code == 403
    assert not client.monitor.queue_stats("mail")[0].paused


def test_what_goes_wrong_at_its_start(start: Start, dsn: str, client: Client) -> None:
    """One line that says what, and exit status 1."""

    def fails(*arguments: str, **named: str) -> str:
        process = start(*arguments, **named)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (1, ""), err
        assert err.startswith("pgq: ")
        assert len(err.splitlines()) == 1, err
        return err

    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port, free = taken.getsockname()[1], silent.getsockname()[1]
        assert f"127.0.0.1:{port}: Address already in use" in fails("--port", str(port))
        assert "refused" in fails(database=make_conninfo(dsn, port=free))
    client.connection.execute("drop schema pgq cascade")
    assert "'pgq migrate' installs it" in fails()


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from pgq.cli import _programs
    from pgq.cli._house import CommandError

    def absent(name: str) -> None:
        raise ModuleNotFoundError("No module named 'starlette'", name="starlette")

    monkeypatch.setattr(_programs, "import_module", absent)
    with pytest.raises(CommandError, match=r"missing: install the extra ui: pip install"):
        _programs._ui()


def test_its_connections_are_few(start: Start, client: Client) -> None:
    """However many tabs are open; and they go when it ends."""
    process = start()
    place, token = address(process)
    headers = {"Authorization": f"Bearer {token}"}

    with ThreadPoolExecutor(24) as pool:
        codes = pool.map(
            lambda _: (
                httpx.get(place + "/api/topics", headers=headers, timeout=PATIENCE).status_code
            ),
            range(96),
        )
        assert set(codes) == {200}
    counted = sql.SQL(
        "select count(*) from pg_stat_activity"
        " where application_name = 'pgq ui' and datname = current_database()"
    )
    count = client.connection.execute(counted).fetchone()
    assert count is not None
    assert 1 <= count[0] <= 4
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    with psycopg.connect(client.connection.info.dsn):
        count = client.connection.execute(counted).fetchone()
    assert count == (0,)
