"""A copy of the checkout in which one file is broken at a time, and pytest is run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psycopg
from psycopg.conninfo import conninfo_to_dict

import build
from leaves import write_out
from mutants.mutant import Mutant
from pgq.embedded import Server
from support import servers

__all__ = ["Outcome", "Tree"]

_COPIED = ("sql", "tests", "migrations", "python", "pgq.control", "CHANGELOG.md", ".pytest.ini")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", "dist", "site", ".*_cache")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)

EACH = 90
"""Seconds for one test: what a mutant lets hang has been noticed."""

SOUND = "pgq_sound"
BROKEN = "pgq_broken"
"""Databases that the tests copy."""


@dataclass(frozen=True)
class Outcome:
    """What a run of tests came to."""

    failed: str | None
    """The test that failed first."""
    ended: bool
    """Whether there was time for all of them."""


class Tree:
    """The copy, as a context manager, with a server of its own.

    The tests copy a database in which the broken version has been installed here, so that a run of
    pytest need not begin with that.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def __enter__(self) -> Tree:
        with ExitStack() as stack:
            self.path = Path(tempfile.mkdtemp(prefix="pgq_mutants_"))
            stack.callback(shutil.rmtree, self.path, ignore_errors=True)
            for name in _COPIED:
                source = self._root / name
                if source.is_dir():
                    shutil.copytree(source, self.path / name, ignore=_LEFT_OUT, symlinks=True)
                else:
                    shutil.copy2(source, self.path / name)
            for name in (".venv", ".cache"):
                if (self._root / name).exists():
                    (self.path / name).symlink_to(self._root / name)
            self._whole = build.flatten()
            server = Server(settings=servers.FAST)
            stack.callback(server.stop)
            servers.start(server)
            self._dsn = server.dsn
            self._install(SOUND)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @contextmanager
    def broken(self, mutant: Mutant) -> Iterator[bool]:
        """Break the copy while in the block; tells whether what comes out can be installed."""
        path = self.path / mutant.path
        path.write_text(mutant.after)
        try:
            script = self._script(mutant)
            if script is not None:
                self._installed.write_text(script)
            yield script is not None and self._install(BROKEN)
        finally:
            path.write_text(mutant.before)
            self._installed.write_text(self._whole)

    def test(
        self, files: list[str], seconds: float, left_out: Set[str], *, template: str | None = None
    ) -> Outcome:
        """Run files of tests in this order up to the first that fails, for so long at most."""
        text, ended = self._run(["-x", *files], seconds, left_out, template or BROKEN)
        found = _FAILED.search(text)
        if found:
            return Outcome(found[1], True)
        if ended not in (0, 5, None):
            raise RuntimeError(f"pytest ended with {ended}: {text[-2000:]}")
        return Outcome(None, ended is not None)

    def failing(self, tests: list[str], seconds: float) -> set[str]:
        """Which of these fail where nothing is broken."""
        text, _ = self._run(tests, seconds, set(), SOUND)
        return set(_FAILED.findall(text))

    def _run(
        self, what: list[str], seconds: float, left_out: Set[str], template: str
    ) -> tuple[str, int | None]:
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE"]
        command += ["-p", "no:cacheprovider", "-m", "not slow", f"--timeout={EACH}"]
        command += [f"--deselect={test}" for test in sorted(left_out)]
        folders = ("tests", "python/src", "python/tools")
        environment = {
            **os.environ,
            "DATABASE_URL": self._dsn,
            "PGQ_TEST_TEMPLATE": template,
            "PYTHONPATH": os.pathsep.join(str(self.path / folder) for folder in folders),
        }
        with tempfile.TemporaryFile("w+") as told:
            process = subprocess.Popen(
                [*command, *what],
                cwd=self.path,
                env=environment,
                stdout=told,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            ended = _wait(process, seconds)
            told.seek(0)
            return told.read(), process.returncode if ended else None

    @property
    def _installed(self) -> Path:
        return self.path / "migrations" / build.migration_path().name

    def _script(self, mutant: Mutant) -> str | None:
        """The script that installs the broken version; none when it cannot be written out."""
        changed = (self.path / mutant.path).resolve()
        part = f"-- paste: parts/{changed.name}"
        script = self._whole
        for path in build.included():
            name = path.relative_to(build.ROOT)
            copy = self.path / name
            if copy.resolve() == changed or part in path.read_text():
                try:
                    broken = write_out(copy).strip("\n")
                except ValueError:
                    return None
                script = script.replace(write_out(path).strip("\n"), broken)
        return script

    def _install(self, template: str) -> bool:
        place = conninfo_to_dict(self._dsn)
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(f"drop database if exists {template} with (force)")
            connection.execute(f"create database {template}")
        with psycopg.connect(**{**place, "dbname": template}) as connection:
            try:
                script = self._installed.read_text()
                connection.execute(script[script.index("\n") :])
            except psycopg.Error:
                connection.rollback()
                return False
        return True


def _wait(process: subprocess.Popen[bytes] | subprocess.Popen[str], seconds: float) -> bool:
    """Whether it ended in time; if not, it is told to clean up, and what is left is killed."""
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        pass
    finally:
        until = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < until:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(4)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return False
