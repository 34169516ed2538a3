"""What the documents show is run, in the order in which they show it.

The SQL blocks of a document go to psql, the Python blocks run in one module, and shell blocks that
call curl talk to a PostgREST; all of them on one database with pgq installed, which the PG…
variables and DATABASE_URL point to; where Spark is used, on the session of the run. A comment
``<!-- not run: reason -->`` before a block leaves it out; shell blocks without curl are commands of
the checkout, of which only make goals are checked.

The pages of the site in python/docs go further. All of their shell blocks are run, in a folder of
the page's own, and a ``text`` block right behind another one is what that prints; … stands for
anything. tests/documentation/test_pages.py lists what is not run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import pgq
from pgq.embedded import Server
from site_hook import ELSEWHERE
from support.house import ROOT, refuse
from support.pages import DOCUMENTS, FILE, GUIDES, NAVIGATION, SEVERAL, Block, blocks, relative
from support.postgrest import Postgrest

SLOW = {
    "guides/django.md",
    "guides/fastapi.md",
    "guides/http.md",
    "guides/http-jwt.md",
    SEVERAL,
    "guides/spark-pipeline.md",
    "tutorial.md",
}
"""Pages that start another program, or many."""

ALONE = {GUIDES / SEVERAL, GUIDES / "guides" / "spark-pipeline.md", ROOT / "python" / "SPARK.md"}
"""Pages that have databases or a program of their own."""


def _parameters() -> list[Any]:
    slow = {*(GUIDES / name for name in SLOW), ROOT / "python" / "SPARK.md", ROOT / "README.md"}
    return [
        pytest.param(path, id=relative(path), marks=[pytest.mark.slow] if path in slow else [])
        for path in DOCUMENTS
    ]


@dataclass(frozen=True)
class Place:
    """Where documents are run."""

    dsn: str
    server: Server
    folder: Path
    request: pytest.FixtureRequest


@pytest.fixture
def place(dsn: str, server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return Place(dsn, server, tmp_path, request)


@pytest.mark.parametrize("document", _parameters())
def test_blocks_run(document: Path, place: Place) -> None:
    _run_document(document, place)


def test_a_page_run_again(place: Place) -> None:
    """In the same database, in which the first run has left its jobs and messages."""
    for _ in range(2):
        _run_document(ROOT / "python" / "WORKER.md", place)


@pytest.mark.slow
@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])
def test_pages_run_one_after_the_other(backwards: bool, place: Place) -> None:
    """In one database: no page needs what another has made, or is in another's way."""
    listed = [
        (ROOT / page if page in {*ELSEWHERE, "README.md"} else GUIDES / page)
        for page in ("README.md", *re.findall(r"[\w/-]+\.md", NAVIGATION))
    ]
    pages = [page for page in listed if page in DOCUMENTS and page not in ALONE]
    assert len(pages) > 30
    failed = []
    for page in reversed(pages) if backwards else pages:
        try:
            _run_document(page, place)
        except Exception as error:
            failed.append(f"{relative(page)}: {error}")
    refuse(failed)


def _run_document(document: Path, place: Place) -> None:
    guide = GUIDES in document.parents
    answers = guide or document == ROOT / "README.md"
    folder = Path(tempfile.mkdtemp(dir=place.folder))
    with ExitStack() as running, pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in _variables(document, place.dsn, place.server).items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)
        monkeypatch.setenv("CHECKPOINTS", str(folder / "checkpoints"))
        if "from pyspark" in document.read_text():
            # what the document builds is then this session, with the JDBC driver among its jars
            place.request.getfixturevalue("spark")
        pgq = folder / "bin" / "pgq"
        pgq.parent.mkdir()
        pgq.write_text(f'#!/bin/sh\nexec {sys.executable} -m pgq "$@"\n')
        pgq.chmod(0o755)
        programs = f"{pgq.parent}:{Path(sys.executable).parent}:{place.server.tool('psql').parent}"
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        monkeypatch.chdir(folder if guide else ROOT)

        databases = [os.environ["DATABASE_URL"]]
        if document == GUIDES / SEVERAL:
            shards = place.request.getfixturevalue("shards")
            databases = shards.dsns
            monkeypatch.setenv("SHARDS", " ".join(shards.urls))
            monkeypatch.setenv("PGUSER", shards.properties["user"])
        module: dict[str, Any] = {"__name__": "__documentation__"}
        roles = _roles(place.dsn)
        running.callback(_drop_roles, place.dsn, roles)
        running.callback(_close_connections, module)
        http: Postgrest | None = None
        printed = ""
        for block in blocks(document):
            shell = block.language in ("sh", "bash", "shell")
            if block.language == "sql":
                for url in databases:
                    psql = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", url]
                    printed = _run(psql, block, block.text)
            elif block.language == "python" and (named := FILE.match(block.text)):
                path = folder / named[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)
            elif block.language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    exec(compile(block.text, str(block), "exec", dont_inherit=True), module)
                printed = output.getvalue()
            elif shell and "curl" in block.text:
                if http is None:
                    http = running.enter_context(_serve(place.dsn, document.read_text()))
                text = re.sub(
                    r"(localhost|127\.0\.0\.1):3000", f"127.0.0.1:{http.port}", block.text
                )
                # an error of the server is an error of the block
                text = text.replace("curl ", "curl -sS --fail-with-body ")
                printed = _run(["sh", "-e"], block, text)
            elif shell and guide:
                printed = _run(["sh", "-e"], block, block.text)
            elif answers and block.language == "text" and block.follows:
                assert _matches(block.text, printed), f"{block} shows another answer:\n{printed}"


def _variables(document: Path, dsn: str, server: Server) -> dict[str, str | None]:
    """What tells the programs of a document where the database is.

    Who reads a guide has what the tutorial sets, DATABASE_URL, and what the guide itself sets.
    """
    parameters = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    variables: dict[str, str | None] = {
        "PGHOST": parameters["host"],
        "PGPORT": parameters["port"],
        "PGUSER": parameters["user"],
        "PGDATABASE": parameters["dbname"],
        "JDBC_DATABASE_URL": "jdbc:postgresql://{host}:{port}/{dbname}".format(**parameters),
    }
    if GUIDES in document.parents:
        text = document.read_text()
        for name in variables:
            if not re.search(rf"\b{name}=", text):
                variables[name] = None
    return {**variables, "DATABASE_URL": server.dsn_for(parameters["dbname"])}


def _matches(shown: str, printed: str) -> bool:
    """Whether this was printed; … stands for anything within a line, and a line of it for lines.

    Rows without columns, as of `select from f()`, are not shown.
    """
    printed = re.sub(r"^--\n\(\d+ rows?\)\n\n?", "", printed, flags=re.MULTILINE)
    lines = [re.escape(line.rstrip()).replace("…", ".*") for line in shown.strip().splitlines()]
    wanted = "\n".join("(?:.|\n)*" if line == ".*" else line for line in lines)
    got = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(wanted, got) is not None


def _serve(dsn: str, text: str) -> Postgrest:
    """A PostgREST that works as the role that the document names, with its grants alone."""
    if Postgrest.binary() is None:
        pytest.skip("no PostgREST binary: make postgrest fetches one, PGQ_POSTGREST names one")
    if shutil.which("curl") is None:
        pytest.skip("no curl: on Debian, apt-get install curl")
    said = {
        option: found[1]
        for option, name in (
            ("role", "DB_ANON_ROLE"),
            ("schema", "DB_SCHEMAS"),
            ("secret", "JWT_SECRET"),
        )
        if (found := re.search(rf"PGRST_{name}=(\w+)", text))
    }
    return Postgrest(dsn, **said)


def _close_connections(module: dict[str, Any]) -> None:
    for value in module.values():
        if isinstance(value, pgq.Client):
            value = value.connection
        if isinstance(value, psycopg.Connection):
            value.close()


def _roles(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        return {name for (name,) in connection.execute("select rolname from pg_roles")}


def _drop_roles(dsn: str, known: set[str]) -> None:
    """Roles belong to the server and would outlive the database."""
    for name in _roles(dsn) - known:
        role = sql.Identifier(name)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("drop owned by {}").format(role))
            connection.execute(sql.SQL("drop role {}").format(role))


def _run(command: list[str], block: Block, text: str) -> str:
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{block} failed:\n{done.stdout}{done.stderr}"
    return done.stdout
