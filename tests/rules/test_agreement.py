"""What is said in several places is the same in all of them."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import psycopg
import pytest

import build
from pgq.errors import BY_SQLSTATE
from support.house import ROOT, checked_in

ERROR_TABLE = ROOT / "sql" / "README.md"


def test_versions_agree(connection: psycopg.Connection[Any]) -> None:
    project = (ROOT / "python" / "pyproject.toml").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    row = connection.execute("select pgq.version()").fetchone()
    assert row is not None
    found = {
        "pgq.control": build.version(),
        "pgq.version()": row[0],
        "python/pyproject.toml": _first(r'^version = "(.+)"$', project),
        "CHANGELOG.md": _first(r"^## (\d\S*)", changelog),
    }
    assert set(found.values()) == {build.version()}, found


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1) if match else None


@pytest.mark.parametrize("tool", ["reference", "catalog"])
def test_generated_files_are_up_to_date(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "python" / "tools" / f"{tool}.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def _error_table() -> dict[str, str]:
    """Code and Python class from the table's rows, whose first and last cells they are."""
    rows = re.findall(
        r"^\| ([0-9A-Z]{5}) \|.*\| `([\w.]+)` \|$", ERROR_TABLE.read_text(), re.MULTILINE
    )
    return {code: name.rpartition(".")[2] for code, name in rows}


def test_the_error_table_lists_what_the_functions_raise(
    connection: psycopg.Connection[Any],
) -> None:
    rows = connection.execute(
        "select prosrc from pg_proc where pronamespace = 'pgq'::regnamespace"
    ).fetchall()
    raised = {
        code for (source,) in rows for code in re.findall(r"errcode\s*(?:=|:=)\s*'([^']+)'", source)
    }
    listed = set(_error_table())
    assert raised - listed == set()
    # an MQ code that nothing raises is a promise nobody keeps
    assert {code for code in listed if code.startswith("MQ")} - raised == set()


def test_the_error_table_and_the_python_classes_agree() -> None:
    table = _error_table()
    arrives_as = {
        code: (BY_SQLSTATE.get(code) or psycopg.errors.lookup(code)).__name__ for code in table
    }
    assert arrives_as == table
    # deadlocks PostgreSQL finds by itself
    assert set(BY_SQLSTATE) - {"40P01"} <= set(table)


def test_the_guide_names_every_folder_of_tests() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    row = _first(r"^\| `tests/` \| (.+) \|$", guide)
    assert row is not None
    # a folder may be left over from another commit, with nothing in it
    files = "\n".join(checked_in())
    folders = set(re.findall(r"^tests/(\w+)/", files, re.MULTILINE))
    mirrored = set(re.findall(r"^sql/(\w+)/", files, re.MULTILINE))
    assert set(re.findall(r"`(\w+)/`", row)) - {"sql"} == folders - mirrored
