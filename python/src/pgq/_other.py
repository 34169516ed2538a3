"""The distribution pgq of PyPI, Skytools' client, which writes into the same folder as pgq-sql."""

from __future__ import annotations

import warnings
from pathlib import Path

__all__ = ["FIX", "WHAT", "WHY", "is_installed", "warn"]

WHAT = "the distribution pgq of PyPI, the client of Skytools' PgQ, is installed as well"
WHY = (
    "it shares the folder pgq/ with pgq-sql: the one installed last has replaced files of the "
    "other, and uninstalling either takes files of both"
)
FIX = "pip uninstall pgq pgq-sql, then install pgq-sql again"


def is_installed() -> bool:
    """Whether files of it are here: one stat, where a look at the metadata takes 0.2 ms."""
    return Path(__file__).with_name("cascade").exists()


def warn() -> None:
    """Warn when it is installed, once in a process."""
    if is_installed():
        warnings.warn(f"{WHAT}: {WHY}. {FIX}", RuntimeWarning, stacklevel=3)
