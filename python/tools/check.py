"""Check what an edit touches, within a minute: linters of the files, tests of their folders.

For who edits one function. Changed is what git says, beside the last commit, or what the arguments
name. ``sql/queue/nack.sql`` is held by ``tests/queue``: by the files there that name the function,
else by all of them; and by the rules that read the sources. `make test` runs everything.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from build import ROOT
from lint import PROGRAMS

# those that start a server of their own, or call every function, take longer
RULES = (
    *("test_sources", "test_texts", "test_leaves", "test_sizes", "test_body_sizes", "test_words"),
    *("test_promises", "test_functions", "test_bodies", "test_agreement", "test_literals"),
)


def changed() -> list[Path]:
    """The files that differ from the last commit."""
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Path(line[3:].split(" -> ")[-1]) for line in listed.stdout.splitlines()]


def tests_of(path: Path) -> set[str]:
    """The test files that hold a source."""
    if path.parts[0] == "tests" and path.name.startswith("test_") and (ROOT / path).is_file():
        return {str(path)}
    if path.parts[0] != "sql" or len(path.parts) < 3:
        return set()
    folder = ROOT.joinpath("tests", *path.parts[1:-1])
    name = path.stem.lstrip("_")
    files = sorted(folder.glob("test_*.py"))
    named = [
        file
        for file in files
        if file.stem in (f"test_{name}", f"test_{name}s") or f".{name}(" in file.read_text()
    ]
    return {str(file.relative_to(ROOT)) for file in named or files}


def main() -> int:
    """Lint, then test."""
    paths = [Path(name) for name in sys.argv[1:]] or changed()
    present = [path for path in paths if (ROOT / path).is_file()]
    python = [str(path) for path in present if path.suffix == ".py"]
    sql = [str(path) for path in present if path.parts[0] == "sql" and path.suffix == ".sql"]
    tests = sorted(set().union(*map(tests_of, present)) if present else set())
    rules = [f"tests/rules/{name}.py" for name in RULES]
    steps = [["pytest", "-q", "-n", "auto", "-m", "not slow", *rules, *tests]]
    if sql:
        steps.insert(0, ["sqlfluff", "lint", "--disable-progress-bar", *sql])
    if python:
        steps.insert(0, ["ruff", "format", "--check", *python])
        steps.insert(0, ["ruff", "check", *python])
    failed = [
        program
        for program, *arguments in steps
        if subprocess.run([PROGRAMS / program, *arguments], cwd=ROOT, check=False).returncode
    ]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
