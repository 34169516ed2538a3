"""The command line: ``pgq`` or ``python -m pgq``; it needs ``pip install 'pgq-sql[cli]'``."""

from __future__ import annotations

from pgq.cli._app import main

__all__ = ["main"]
