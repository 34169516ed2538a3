"""How the programs of tests/drivers are run: what each language needs, and where it is found."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgq.local_spark import SparkSetupError, find_jdbc_driver
from support.house import ROOT
from support.java import JAVA_OPTIONS

__all__ = ["GO_PACKAGES", "PROGRAMS", "environment", "run_program"]

PROGRAMS = ROOT / "tests" / "drivers" / "programs"

NODE = ROOT / ".cache" / "node"
GO_PACKAGES = Path("/usr/share/gocode")


class Missing(Exception):
    """What a program needs is not on this machine."""


def environment(dsn: str) -> dict[str, str]:
    """Each of the ways in which drivers are told of a database, by variables."""
    place = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    user, host, port, database = (place[name] for name in ("user", "host", "port", "dbname"))
    password = place.get("password", "")
    login = quote(user) + (f":{quote(password, safe='')}" if password else "")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PG")},
        "DATABASE_URL": f"postgresql://{login}@{host}:{port}/{quote(database)}",
        "JDBC_DATABASE_URL": f"jdbc:postgresql://{host}:{port}/{database}",
        "PGHOST": host,
        "PGPORT": port,
        "PGUSER": user,
        "PGDATABASE": database,
        **({"PGPASSWORD": password} if password else {}),
        # what a driver leaves to the locale of the machine is the same everywhere
        "LC_ALL": "C.UTF-8",
        "PYTHONUTF8": "1",
    }


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Missing(f"no {name}: on Debian, apt-get install {package}")
    return found


def _probe(command: list[str], package: str) -> None:
    """Raise when a command that loads the driver fails."""
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        raise Missing(f"no driver of PostgreSQL: on Debian, apt-get install {package}")


def _python(path: Path) -> list[str]:
    for package in ("asyncpg", "sqlalchemy", "django"):
        if package in path.name and importlib.util.find_spec(package) is None:
            raise Missing(f"no {package}: pip install {package}")
    if "sqlalchemy_async" in path.name and importlib.util.find_spec("asyncpg") is None:
        raise Missing("no asyncpg: pip install asyncpg")
    return [sys.executable, str(path)]


def _node(path: Path) -> list[str]:
    if not (NODE / "node_modules").is_dir():
        raise Missing("no drivers for Node.js: python/tools/node_drivers.sh fetches them")
    # a module is looked for beside the program that imports it, not below the current folder
    copy = NODE / path.name
    copy.write_text(path.read_text())
    return [_program("node", "nodejs"), str(copy)]


def _java(path: Path) -> list[str]:
    java = _program("java", "openjdk-17-jdk-headless")
    try:
        jar = find_jdbc_driver()
    except SparkSetupError as error:
        raise Missing(str(error)) from None
    return [java, *JAVA_OPTIONS.split(), "--source", "17", "-cp", str(jar), str(path)]


def _c(path: Path) -> list[str]:
    compiler = _program("cc", "gcc")
    flags = subprocess.run(
        [_program("pkg-config", "pkg-config"), "--cflags", "--libs", "libpq"],
        capture_output=True,
        text=True,
        check=False,
    )
    if flags.returncode != 0:
        raise Missing("no libpq to build with: on Debian, apt-get install libpq-dev")
    target = ROOT / ".cache" / "drivers" / path.stem
    target.parent.mkdir(parents=True, exist_ok=True)
    # -Werror: readers copy it
    options = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-o", str(target)]
    try:
        _run([compiler, str(path), *options, *flags.stdout.split()], dict(os.environ))
        return [str(target)]
    except subprocess.CalledProcessError as error:
        raise AssertionError(error.stderr) from None


def _go(path: Path) -> list[str]:
    package = "github.com/jackc/pgx" if "pgx" in path.name else "github.com/lib/pq"
    if not (GO_PACKAGES / "src" / package).is_dir():
        debian = (
            "golang-github-jackc-pgx-v4-dev" if "pgx" in path.name else "golang-github-lib-pq-dev"
        )
        raise Missing(f"no {package}: on Debian, apt-get install {debian}")
    return [_program("go", "golang-go"), "run", str(path)]


def _psql(path: Path) -> list[str]:
    return [_program("psql", "postgresql-client"), "-X", "-q", "-A", "-t", "-f", str(path)]


def _ruby(path: Path) -> list[str]:
    ruby = _program("ruby", "ruby-pg")
    _probe([ruby, "-e", "require 'pg'"], "ruby-pg")
    return [ruby, "-w", str(path)]


def _php(path: Path) -> list[str]:
    php = _program("php", "php-cli")
    _probe([php, "-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);"], "php-pgsql")
    return [php, "-d", "display_errors=stderr", "-d", "error_reporting=-1", str(path)]


def _perl(path: Path) -> list[str]:
    perl = _program("perl", "perl")
    _probe([perl, "-MDBD::Pg", "-MJSON::PP", "-e", "1"], "libdbd-pg-perl")
    return [perl, str(path)]


_COMMANDS = {
    ".psql": _psql,
    ".py": _python,
    ".mjs": _node,
    ".java": _java,
    ".c": _c,
    ".go": _go,
    ".rb": _ruby,
    ".php": _php,
    ".pl": _perl,
}


def _run(
    command: list[str], variables: dict[str, str], check: bool = True, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=variables,
        input=given,
        capture_output=True,
        text=True,
        timeout=240,
        check=check,
    )


def run_program(path: Path, dsn: str, given: str | None = None, **more: str) -> str:
    """What the program prints, of what is given to it.

    Skips where its language or its driver is missing. ``more`` are variables of its environment.
    """
    variables = environment(dsn)
    if path.suffix == ".go":
        variables |= {"GOPATH": str(GO_PACKAGES), "GO111MODULE": "off", "GOFLAGS": ""}
        variables["GOCACHE"] = str(ROOT / ".cache" / "go")
    variables |= more
    try:
        command = _COMMANDS[path.suffix](path)
    except Missing as missing:
        pytest.skip(str(missing))
    done = _run(command, variables, check=False, given=given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
