"""The password of a server: in a file that its user alone can read, and on no command line."""

from __future__ import annotations

import os
import secrets
import subprocess
from pathlib import Path

from pgq.embedded._account import Account
from pgq.embedded._cluster import process_options
from pgq.embedded._errors import EmbeddedServerError
from pgq.embedded._runtime import Layout

__all__ = ["HBA", "protect"]

HBA = "pgq_hba.conf"
"""Beside the server's own, which trusts; in the data folder."""


def protect(data: Path, layout: Layout, account: Account, file: Path) -> None:
    """Have a server that does not run yet want a password, the one in the file or a new one."""
    rules = data / HBA
    rules.write_text(
        "".join(
            f"{kind} {database} all {address} scram-sha-256\n"
            for database in ("all", "replication")
            for kind, address in (("local", ""), ("host", "all"))
        )
    )
    account.own(rules)
    if file.exists():
        return
    password = secrets.token_hex(24)
    # A server for one user alone, to which nothing can connect; for data that is there, too.
    told = subprocess.run(
        [layout.bin / "postgres", "--single", "-c", "log_statement=none", "-D", data, "postgres"],
        input=f"alter role postgres password '{password}'\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=data.parent,
        **process_options(account),
    )
    if told.returncode != 0 or "ERROR" in told.stderr:
        raise EmbeddedServerError(f"the password could not be set: {told.stderr.strip()}")
    # Written at once and whole: a file without the password that was set would lock its owner out.
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(f"*:*:*:postgres:{password}\n")
    new.replace(file)
