"""The command line: ``pgq`` or ``python -m pgq``; it needs the extra ``cli``."""

from __future__ import annotations

from pgq.cli._app import main

__all__ = ["main"]
