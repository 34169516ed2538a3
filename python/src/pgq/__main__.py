"""The command line: ``python -m pgq`` or ``pgq``.

What it is made with comes with the extra ``cli``; without that it only says so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pgq._extras import install

__all__ = ["main"]

_LIBRARIES = ("typer", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    try:
        from pgq.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        print(
            f"pgq: the module {error.name} is missing: {install('cli')}; "
            "to install or upgrade pgq in a database, python -m pgq.migrate does without it",
            file=sys.stderr,
        )
        return 1
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
