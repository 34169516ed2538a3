"""Join the SQL sources into the one script that installs them.

``sql/install.sql`` is the manifest: its ``\\ir`` lines, and those of the files it names, are
replaced by the files. The result is ``migrations/pgq--<version>.sql``, with the version from
``pgq.control``. Where CHANGELOG.md calls that version released, the script is only compared.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from leaves import write_out

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "sql" / "install.sql"
CONTROL = ROOT / "pgq.control"

_INCLUDE = re.compile(r"\\ir\s+(\S+)\s*")


def version() -> str:
    """The version that the control file names."""
    match = re.search(r"^default_version\s*=\s*'([^']+)'", CONTROL.read_text(), re.MULTILINE)
    if match is None:
        raise SystemExit("pgq.control names no default_version")
    return match.group(1)


def released(wanted: str | None = None) -> bool:
    """Whether a version's scripts are frozen: its heading in the changelog bears a date."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    name = re.escape(wanted or version())
    heading = re.search(rf"^## {name}(?![.\d])(.*)$", changelog, re.MULTILINE)
    return heading is not None and "unreleased" not in heading.group(1)


def migration_path() -> Path:
    """Where the script for a fresh install of this version belongs."""
    return ROOT / "migrations" / f"pgq--{version()}.sql"


def included(manifest: Path | None = None) -> list[Path]:
    """All files that a manifest includes, in order, nested manifests resolved."""
    manifest = MANIFEST if manifest is None else manifest
    files: list[Path] = []
    for line in manifest.read_text().splitlines():
        match = _INCLUDE.fullmatch(line)
        if match:
            path = (manifest.parent / match.group(1)).resolve()
            if not path.is_file():
                raise SystemExit(f"{_name(manifest)} includes {_name(path)}, which does not exist")
            nested = included(path)
            files.extend(nested or [path])
    return files


def unlisted() -> list[Path]:
    """Files below sql/ that no manifest includes: what was written and then forgotten."""
    reached = set(included()) | {MANIFEST.resolve()}
    manifests = {path.resolve() for path in _manifests(MANIFEST)}
    everything = {path.resolve() for path in (ROOT / "sql").rglob("*.sql")}
    return sorted(everything - reached - manifests)


def flatten() -> str:
    """The text of the install script."""
    files = included()
    twice = sorted({_name(path) for path in files if files.count(path) > 1})
    if twice:
        raise SystemExit(f"included twice: {', '.join(twice)}")
    parts = [
        f"\\echo Installing pgq {version()} \\set ON_ERROR_STOP on\n"
        "-- generated from sql/install.sql by python/tools/build.py: edit there, not here\n"
    ]
    for path in files:
        body = write_out(path).strip("\n")
        wrong = [line for line in body.splitlines() if line.startswith("\\")]
        if wrong:
            raise SystemExit(f"{_name(path)} uses a psql command: {wrong[0]}")
        parts.append(f"\n-- ==== {_name(path)}\n\n{body}\n")
    return "".join(parts)


def _manifests(path: Path) -> Iterator[Path]:
    for line in path.read_text().splitlines():
        match = _INCLUDE.fullmatch(line)
        if match:
            nested = (path.parent / match.group(1)).resolve()
            if nested.is_file() and included(nested):
                yield nested
                yield from _manifests(nested)


def _name(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return str(path)


def main() -> int:
    """Write the script; 1 where a source is in no manifest, or a released script would change."""
    forgotten = unlisted()
    if forgotten:
        print("not in the manifest:", *map(_name, forgotten), sep="\n  ", file=sys.stderr)
        return 1
    script = flatten()
    path = migration_path()
    if path.exists() and path.read_text() == script:
        return 0
    if released():
        print(
            f"{_name(path)} is released and never changes: give the change a new version "
            "(CONTRIBUTING.md, change a table)",
            file=sys.stderr,
        )
        return 1
    path.parent.mkdir(exist_ok=True)
    path.write_text(script)
    print(f"wrote {_name(path)} ({len(script.splitlines())} lines)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
