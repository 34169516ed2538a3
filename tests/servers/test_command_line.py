"""The command line on a standby: what reads works, what writes is refused in one line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import psycopg

from pgq import Client
from pgq.embedded import Server
from support.command import PGQ
from support.house import install_script, refuse

WRITES = (
    "topics create other",
    "topics alter orders --notify",
    "topics drop orders --yes",
    "groups create orders other",
    "groups alter orders billing --out-of-range skip",
    "groups drop orders billing --yes",
    "queues create other",
    "queues pause mail",
    "queues drop mail --yes",
    "subscriptions create all orders mail",
    "schedules create tick --queue mail --every 1m --payload 1",
    "schedules run",
    "access grant postgres publish --topic orders",
    "publish orders 1",
    "publish orders --format values",
    "enqueue mail 1",
    "consume orders billing",
    "consume orders billing --follow",
    "seek orders billing --start latest",
    "redrive mail --all --yes",
    "purge mail --dead --yes",
    "cancel 1",
    "retry --queue mail --all --yes",
    "cleanup",
)
READS = (
    "status",
    "lag",
    "topics list",
    "queues show mail",
    "jobs mail",
    "peek mail",
    "tail orders",
    "workers",
    "metrics",
    "top --count 1",
)


def test_on_a_standby(
    start_server: Callable[..., Server], start_standby: Callable[..., Server]
) -> None:
    primary = start_server(settings={"fsync": "off", "max_wal_senders": "4"})
    with psycopg.connect(primary.dsn) as connection:
        connection.execute(install_script())
        client = Client(connection)
        client.admin.create_topic("orders", partitions=1)
        client.admin.create_group("orders", "billing")
        client.admin.create_queue("mail", max_attempts=1)
        client.publish("orders", 1)
        client.enqueue("mail", 1)
    standby = start_standby(primary)
    wrong: list[str] = []
    for command in (*WRITES, *READS):
        done = subprocess.run(
            [*PGQ, *command.split()],
            env={**os.environ, "DATABASE_URL": standby.dsn},
            input="1\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if command in READS:
            right = (done.returncode, done.stderr) == (0, "")
        else:
            said = done.stderr.splitlines()
            right = (
                done.returncode == 1
                and len(said) == 1
                and said[0].startswith("pgq: this server is a standby")
                and "; HINT: " in said[0]
            )
        if not right:
            wrong.append(f"{command}: {done.returncode} {done.stderr}")
    refuse(wrong)
