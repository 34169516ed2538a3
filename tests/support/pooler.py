"""A PgBouncer in transaction mode before a server."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgq.embedded._cluster import free_port
from support.session import Session
from support.waiting import wait_until

__all__ = ["POOL", "PgBouncer"]

POOL = 2


class PgBouncer:
    """Clients of the database go through two server connections, whoever they are."""

    def __init__(self, dsn: str, more_settings: str = "") -> None:
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        if program is None:
            pytest.skip("no pgbouncer: on Debian, apt-get install pgbouncer")
        self._program = program
        target = conninfo_to_dict(dsn)
        port = free_port()
        # one that an unprivileged PgBouncer can read, whatever the mode of its parents
        self._directory = Path(tempfile.mkdtemp(prefix="pgq-pgbouncer-"))
        self._directory.chmod(0o755)
        users = self._directory / "users.txt"
        users.write_text(f'"{target["user"]}" "{target.get("password") or ""}"\n')
        self._settings = self._directory / "pgbouncer.ini"
        self._settings.write_text(
            f"""
[databases]
* = host={target["host"]} port={target["port"]} user={target["user"]}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {POOL}
max_client_conn = 100
ignore_startup_parameters = extra_float_digits
logfile =
pidfile =
{more_settings}
"""
        )
        for path in (users, self._settings):
            path.chmod(0o644)
        self.dsn = make_conninfo(
            host="127.0.0.1", port=port, user=target["user"], dbname=target["dbname"]
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        run_as: dict[str, Any] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            nobody = pwd.getpwnam("nobody")
            run_as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        with (self._directory / "log").open("ab") as log:
            process = subprocess.Popen(
                [self._program, self._settings],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                **run_as,
            )
        self._process = process

        def answers() -> bool:
            assert process.poll() is None, (self._directory / "log").read_text()
            try:
                Session.connect(self.dsn, connect_timeout=2).close()
            except psycopg.OperationalError:
                return False
            return True

        wait_until(answers, what="for PgBouncer to answer")

    def kill(self) -> None:
        """End it at once; the server rolls back what was open."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def close(self) -> None:
        """End with the test."""
        self.kill()
        shutil.rmtree(self._directory)
