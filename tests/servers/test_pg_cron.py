"""pg_cron itself calls cleanup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pgq.embedded import Server
from support.house import install_script
from support.session import Session, refused, row
from support.waiting import wait_until

StartServer = Callable[..., Server]


def binaries() -> Path:
    """A server of the machine that has pg_cron."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/lib/pg_cron.so"), reverse=True):
        return folder.parents[1] / "bin"
    pytest.skip("no pg_cron: on Debian it is the package postgresql-NN-cron")


def test_it_is_called_every_minute(start_server: StartServer) -> None:
    server = start_server(
        bin_dir=binaries(),
        settings={
            "fsync": "off",
            "shared_preload_libraries": "pg_cron",
            # connections of its own would need to know where the socket is
            "cron.use_background_workers": "on",
            "max_worker_processes": "20",
        },
    )
    with Session.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        error = refused("0A000", connection.schedule_cleanup)
        assert "create extension pg_cron" in str(error.diag.message_hint)
        assert connection.unschedule_cleanup() is False
        connection.execute("create extension pg_cron")
        assert connection.unschedule_cleanup() is False

        first = connection.schedule_cleanup(schedule="0 4 * * *")
        assert connection.schedule_cleanup() == first
        jobs = "select jobid, schedule, active from cron.job"
        assert connection.execute(jobs).fetchall() == [(first, "* * * * *", True)]
        refused("22023", connection.schedule_cleanup, schedule="never")
        assert connection.execute(jobs).fetchall() == [(first, "* * * * *", True)]

        connection.create_queue(queue="q", job_ttl="1 millisecond")
        connection.enqueue(queue="q", payload=1)
        wait_until(
            lambda: row(connection, "select count(*) from pgq.job") == (0,),
            75,
            "for pg_cron to call cleanup",
        )
        ran = "select status, return_message from cron.job_run_details where jobid = %s"
        wait_until(lambda: connection.execute(ran, [first]).fetchall()[0][0] == "succeeded")
        assert connection.unschedule_cleanup() is True
        assert connection.unschedule_cleanup() is False
        assert connection.execute(jobs).fetchall() == []


def test_as_an_ordinary_owner(start_server: StartServer) -> None:
    """It needs USAGE on the schema of pg_cron, and its job is its own."""
    server = start_server(
        bin_dir=binaries(), settings={"fsync": "off", "shared_preload_libraries": "pg_cron"}
    )
    server.run(
        "psql", "-X", "-c", "create role tenant login", "-c", "create extension pg_cron",
        "-c", "grant create on database postgres to tenant",
    )  # fmt: skip
    with (
        Session.connect(server.dsn.replace("postgres@", "tenant@"), autocommit=True) as connection,
        Session.connect(server.dsn, autocommit=True) as admin,
    ):
        connection.execute(install_script())
        refused("42501", connection.schedule_cleanup)
        admin.execute("grant usage on schema cron to tenant")
        assert connection.schedule_cleanup() > 0
        assert row(admin, "select username, database from cron.job") == ("tenant", "postgres")
        # who else may call it acts for the owner
        assert admin.unschedule_cleanup() is True
