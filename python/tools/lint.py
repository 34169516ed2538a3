"""Run every linter, report all that they find, and fail when one of them failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from build import ROOT, migration_path

PROGRAMS = Path(sys.executable).parent
CONFIG = "python/pyproject.toml"
# tests and benchmarks are formatted and linted; what the package promises is type-checked strictly
PYTHON = [name for name in ("python", "tests", "benchmarks") if (ROOT / name).is_dir()]

CHECKS: dict[str, list[str]] = {
    "ruff check": ["ruff", "check", *PYTHON],
    "ruff format": ["ruff", "format", "--check", *PYTHON],
    "mypy": ["mypy", "--strict", "--config-file", CONFIG, "python/src", "python/tools"],
    "sqlfluff": ["sqlfluff", "lint", "--processes", "2", "--disable-progress-bar", "sql"],
    "pgspot": ["pgspot", str(migration_path())],
}


def main() -> int:
    """Run the checks named as arguments, or all."""
    wanted = sys.argv[1:] or list(CHECKS)
    failed = []
    for name in wanted:
        program, *arguments = CHECKS[name]
        done = subprocess.run(
            [PROGRAMS / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        print(f"{name}: {'ok' if done.returncode == 0 else 'failed'}", flush=True)
        if done.returncode != 0:
            failed.append(name)
            print(done.stdout, done.stderr, sep="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
