"""Run every linter, report all that they find, and fail when one of them failed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from build import ROOT, flatten

PROGRAMS = Path(sys.executable).parent
CONFIG = "python/pyproject.toml"
PYTHON = [name for name in ("python", "tests", "benchmarks") if (ROOT / name).is_dir()]

# mypy reads what the package promises; tests and benchmarks are linted and formatted
CHECKS: dict[str, list[str]] = {
    "ruff check": ["ruff", "check", *PYTHON],
    "ruff format": ["ruff", "format", "--check", *PYTHON],
    "mypy": ["mypy", "--strict", "--config-file", CONFIG, "python/src", "python/tools"],
    "sqlfluff": ["sqlfluff", "lint", "--processes", "2", "--disable-progress-bar", "sql"],
    "wrap": ["python", "python/tools/wrap.py", "--check"],
    # it cannot parse every PL/pgSQL body; those are held by tests/rules and plpgsql_check
    "pgspot": ["pgspot", "--no-plpgsql", "--proc-without-search-path", "pgq.version()"],
}

_PRIVATE_FUNCTION = re.compile(r"^create function pgq\._\w+\(.*?^\$\$;$", re.MULTILINE | re.DOTALL)


def exposed_sql() -> str:
    """What pgspot is to judge: the install script as two of the three routes run it.

    They set the search path. Private functions are left out: only functions that pin theirs call
    them, and with a setting of their own they would not be inlined.
    """
    script = flatten().partition("\n")[2]
    return "set search_path = pg_catalog, pg_temp;\n" + _PRIVATE_FUNCTION.sub("", script)


def main() -> int:
    """Run the checks named as arguments, or all."""
    wanted = sys.argv[1:] or list(CHECKS)
    failed = []
    for name in wanted:
        program, *arguments = CHECKS[name]
        done = subprocess.run(
            [PROGRAMS / program, *arguments],
            input=exposed_sql() if name == "pgspot" else "",
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"{name}: {'ok' if done.returncode == 0 else 'failed'}", flush=True)
        if done.returncode != 0:
            failed.append(name)
            print(done.stdout, done.stderr, sep="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
