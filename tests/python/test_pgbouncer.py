"""The client behind PgBouncer in transaction mode, where no two transactions share a session."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgq import Client
from support.waiting import wait_until

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")

pytestmark = pytest.mark.skipif(
    PGBOUNCER is None, reason="no pgbouncer program (Debian's package pgbouncer has it)"
)


@pytest.fixture
def pooled(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The test's database through a pool of two server connections."""
    place = conninfo_to_dict(dsn)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = tmp_path_factory.mktemp("pgbouncer") / "pgbouncer.ini"
    target = {name: place[name] for name in ("host", "port", "user", "password") if name in place}
    settings.write_text(
        "[databases]\n"
        f"{place['dbname']} = {' '.join(f'{name}={value}' for name, value in target.items())}\n"
        "[pgbouncer]\n"
        "listen_addr = 127.0.0.1\n"
        f"listen_port = {port}\n"
        "unix_socket_dir =\n"
        "auth_type = any\n"
        "pool_mode = transaction\n"
        "default_pool_size = 2\n"
    )
    # It refuses to run as root; the file is handed over, because pytest's folder is private.
    switch: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        switch = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    with settings.open("rb") as file:
        assert PGBOUNCER is not None
        process = subprocess.Popen(
            [PGBOUNCER, "--quiet", "/dev/stdin"],
            stdin=file,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **switch,
        )
        try:
            pooled = make_conninfo("", host="127.0.0.1", port=port, dbname=place["dbname"])

            def answers() -> bool:
                assert process.poll() is None, "pgbouncer has ended"
                try:
                    psycopg.connect(pooled, user="postgres", prepare_threshold=None).close()
                except psycopg.OperationalError:
                    return False
                return True

            wait_until(answers, what="for pgbouncer")
            yield pooled
        finally:
            process.terminate()
            process.wait(10)


def test_many_clients_share_two_sessions(pooled: str, connection: psycopg.Connection[Any]) -> None:
    admin = Client(connection)
    admin.admin.create_topic("readings", partitions=4)
    admin.admin.create_group("readings", "sums")
    admin.admin.create_group("readings", "leases")
    admin.admin.create_queue("mail", notify=True)
    clients, rounds = 6, 10

    def user(number: int) -> tuple[int, int, int]:
        consumed = leased = done = 0
        with psycopg.connect(
            pooled, user="postgres", autocommit=True, prepare_threshold=None
        ) as own:
            client = Client(own)
            for turn in range(rounds):
                client.publish("readings", {"client": number, "turn": turn}, key=str(number))
                client.enqueue("mail", {"client": number, "turn": turn})
                consumed += len(client.retry(lambda c: c.consume("readings", "sums")))
                messages = client.poll("readings", "leases")
                if messages:
                    last = messages[-1]
                    client.commit_offset(
                        "readings",
                        "leases",
                        last.partition,
                        last.log_offset,
                        lease_token=last.lease_token,
                    )
                    leased += len(messages)
                with own.transaction():
                    jobs = client.claim_job("mail")
                    done += sum(client.ack(job.job_id, job.lease_token) for job in jobs)
        return consumed, leased, done

    with ThreadPoolExecutor(clients) as pool:
        consumed, leased, done = (sum(each) for each in zip(*pool.map(user, range(clients))))
    for rest in iter(lambda: admin.consume("readings", "sums"), []):
        consumed += len(rest)
    while messages := admin.poll("readings", "leases"):
        leased += len(messages)
        last = messages[-1]
        admin.commit_offset(
            "readings", "leases", last.partition, last.log_offset, lease_token=last.lease_token
        )
    while jobs := admin.claim_job("mail", max_jobs=10):
        done += len(admin.ack_batch([job.job_id for job in jobs], jobs[0].lease_token))
    assert (consumed, leased, done) == (clients * rounds,) * 3


def test_waiting_without_listening(pooled: str, connection: psycopg.Connection[Any]) -> None:
    Client(connection).admin.create_queue("mail")
    with psycopg.connect(pooled, user="postgres", autocommit=True, prepare_threshold=None) as own:
        client = Client(own)
        assert (
            client.wait(
                lambda c: c.claim_job("mail"),
                timeout=timedelta(milliseconds=50),
                interval=timedelta(milliseconds=10),
            )
            == []
        )
        client.enqueue("mail", 1)
        assert len(client.wait(lambda c: c.claim_job("mail"))) == 1
