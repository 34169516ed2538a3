"""Doctor's checks of the server: what holds cleanup back, and settings."""

from __future__ import annotations

from pgq.cli._catalog import Row
from pgq.cli._findings import ERROR, NOTE, WARNING, Examination
from pgq.cli._output import instant, plain

__all__ = ["CHECKS"]

_HELD = "rows that are done with stay, and if it called pgq, so do segments that are due"
GIGABYTE = 1 << 30
MANY_TRANSACTIONS = 100_000
"""A standby with hot_standby_feedback always names a snapshot; one so old hinders something."""


def _named(row: Row) -> str:
    parts = [f"process {row['pid']}"]
    if row["role"]:
        parts.append(f"of role {row['role']}")
    if row["application"]:
        parts.append(f"({plain(row['application'])})")
    if row["database"]:
        parts.append(f"in database {row['database']}")
    if row["address"]:
        parts.append(f"from {row['address']}")
    return " ".join(parts)


def sessions(look: Examination) -> None:
    """Transactions that are open for long."""
    for row in look.ask("sessions", look.older_than):
        who = _named(row)
        end = f"select pg_terminate_backend({row['pid']});"
        if row["feeds"]:
            if row["transactions"] > MANY_TRANSACTIONS:
                look.note(
                    "sessions", WARNING,
                    f"a standby holds a snapshot here, {row['transactions']:,} transactions old: "
                    f"{who}",
                    f"its hot_standby_feedback says that it still needs old rows: {_HELD}",
                    "end long queries on the standby, or set hot_standby_feedback = off there",
                )  # fmt: skip
            continue
        since = instant(row["since"])
        if (row["state"] or "").startswith("idle in transaction"):
            look.note(
                "sessions", WARNING, f"idle in transaction since {since}: {who}",
                f"while it is open, {_HELD}; its locks stay as well",
                f"{end} -- and set idle_in_transaction_session_timeout, so that it ends by itself",
                row["since"],
            )  # fmt: skip
        elif row["writes"] or row["sees"]:
            look.note(
                "sessions", WARNING, f"a snapshot is held since {since}: {who}",
                f"while its transaction is open, {_HELD}",
                f"wait for it, or: {end}",
                row["since"],
            )  # fmt: skip
    if not look.server["sees_all"]:
        hidden = look.ask("hidden")[0]["sessions"]
        if hidden:
            look.unseen(
                "sessions", f"{hidden} sessions of other roles",
                f'grant pg_read_all_stats to "{look.server["role"]}";',
            )  # fmt: skip


def prepared(look: Examination) -> None:
    """Prepared transactions that nobody has ended."""
    for row in look.ask("prepared", look.older_than):
        gid = str(row["gid"]).replace("'", "''")
        look.note(
            "prepared transactions", ERROR,
            f"prepared transaction '{plain(row['gid'])}' of role {row['role']} in database "
            f"{row['database']} is open since {instant(row['since'])}",
            f"it stays for ever, also when the server is started again: {_HELD}",
            f"in database {row['database']}: "
            f"commit prepared '{gid}'; or rollback prepared '{gid}';",
            row["since"],
        )  # fmt: skip


def slots(look: Examination) -> None:
    """Replication slots that keep rows or write-ahead log."""
    for row in look.ask("slots"):
        name = str(row["slot"])
        kept = row["bytes"] or 0
        told = f"{row['slot_type']} replication slot {name}"
        drop = f"select pg_drop_replication_slot('{name}'); -- if nobody needs it"
        if not row["active"]:
            look.note(
                "replication slots", ERROR if kept > GIGABYTE else WARNING,
                f"{told} is used by nobody; it keeps {kept / (1 << 20):,.0f} MB of write-ahead log",
                "the disk fills up, and where the slot has an xmin, " + _HELD,
                f"start its consumer again, or: {drop}",
            )  # fmt: skip
        elif row["holds_rows"] and (row["transactions"] or 0) > MANY_TRANSACTIONS:
            look.note(
                "replication slots", WARNING,
                f"{told} (process {row['pid']}) keeps rows of {row['transactions']:,} transactions",
                _HELD,
                "end long queries on that standby, or set hot_standby_feedback = off there",
            )  # fmt: skip
        elif kept > GIGABYTE:
            look.note(
                "replication slots", WARNING,
                f"{told} (process {row['pid']}) is {kept / (1 << 20):,.0f} MB behind",
                "the disk fills up if it does not catch up",
                "look at its consumer",
            )  # fmt: skip


def settings(look: Examination) -> None:
    """Settings of the server, and of this role in this database."""
    known = {row["name"]: row["setting"] for row in look.ask("settings")}
    place = f'alter database "{look.server["database"]}" set'
    for name, severity, why in (
        ("fsync", ERROR, "after a crash of the machine the database may be broken"),
        ("full_page_writes", ERROR, "after a crash of the machine the database may be broken"),
        ("autovacuum", ERROR, "nothing removes dead rows, so claims and publishes become slow"),
        ("track_counts", ERROR, "autovacuum does not know what to do, so dead rows stay"),
    ):
        if known.get(name) == "off":
            look.note(
                "settings", severity, f"{name} is off", why,
                f"alter system set {name} = on; select pg_reload_conf();",
            )  # fmt: skip
    if look.connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        look.note(
            "settings", ERROR, "the database has the encoding SQL_ASCII",
            "it stores what it is given, cannot hold JSON's \\u escapes, and programs get bytes",
            "create another one with encoding 'UTF8' template template0, and pgq in it",
        )  # fmt: skip
    if known["synchronous_commit"] == "off":
        look.note(
            "settings", WARNING, "synchronous_commit is off",
            "a publish, an ack or a committed offset may be lost in a crash after it was answered",
            f"{place} synchronous_commit = on;",
        )  # fmt: skip
    if known["default_transaction_isolation"] != "read committed":
        look.note(
            "settings", WARNING,
            f"default_transaction_isolation is {known['default_transaction_isolation']}",
            "cleanup, purge_queue, redrive and commit_write refuse to run (25001), and calls "
            "beside each other get 40001",
            f"{place} default_transaction_isolation = 'read committed';",
        )  # fmt: skip
    if known["default_transaction_read_only"] == "on" and not look.server["standby"]:
        look.note(
            "settings", ERROR, "default_transaction_read_only is on",
            "nothing can be published, consumed or enqueued",
            f"{place} default_transaction_read_only = off;",
        )  # fmt: skip
    limit = int(known["statement_timeout"])
    if 0 < limit < 5_000:
        look.note(
            "settings", WARNING, f"statement_timeout is {limit} ms",
            "cleanup, large batches and redrive may be cut off, again and again",
            f'alter role "{look.server["role"]}" set statement_timeout = \'30s\';',
        )  # fmt: skip
    if int(known["idle_in_transaction_session_timeout"]) == 0:
        look.note(
            "settings", NOTE, "idle_in_transaction_session_timeout is not set",
            f"a program that hangs in a transaction keeps it open for ever: {_HELD}",
            f"{place} idle_in_transaction_session_timeout = '5min';",
        )  # fmt: skip


def locks(look: Examination) -> None:
    """Whether there is room for the locks of maintenance."""
    known = {row["name"]: row["setting"] for row in look.ask("settings")}
    room = int(known["max_locks_per_transaction"]) * (
        int(known["max_connections"]) + int(known["max_prepared_transactions"])
    )
    relations = look.ask("relations")[0]["relations"]
    if relations > room / 2:
        look.note(
            "locks", WARNING,
            f"there is room for {room:,} locks, and pgq has {relations:,} tables and indexes",
            "pg_dump, an upgrade or a query of all messages may fail with 'out of shared memory'",
            "alter system set max_locks_per_transaction = "
            f"{max(128, int(known['max_locks_per_transaction']) * 4)}; -- then restart the server",
        )  # fmt: skip


CHECKS = (
    ("sessions", sessions),
    ("prepared transactions", prepared),
    ("replication slots", slots),
    ("settings", settings),
    ("locks", locks),
)
