"""What the documents show is run, in the order in which they show it.

The SQL blocks of a document go to psql, the Python blocks run in one module, and shell blocks that
call curl talk to a PostgREST; all of them on one database with pgq installed, which the PG…
variables and DATABASE_URL point to; where Spark is used, on the session of the run. A comment
``<!-- not run: reason -->`` before a block leaves it out; shell blocks without curl are commands of
the checkout, of which only make goals are checked.

The pages of the site in python/docs go further. All of their shell blocks are run, in a folder of
the page's own, and a ``text`` block right behind another one is what that prints; … stands for
anything. What is not run is listed here.
"""

from __future__ import annotations

import codeop
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from pgq.embedded import Server
from site_hook import ELSEWHERE
from support.house import ROOT, refuse
from support.postgrest import Postgrest

GUIDES = ROOT / "python" / "docs"
NAVIGATION = (ROOT / "python" / "mkdocs.yml").read_text().split("\nnav:\n")[1]

TESTED_ELSEWHERE = {
    "command-line.md",
    "drivers.md",
    "replicas.md",
    "ui.md",
    "upgrade.md",
    "use-in-your-project.md",
}
"""Pages of the site whose examples have tests of their own, beside what they describe."""

SEVERAL = "guides/several-databases.md"
"""The page whose SQL goes to two databases."""

SLOW = {"guides/http.md", "guides/http-jwt.md", SEVERAL, "guides/spark-pipeline.md", "tutorial.md"}
"""Pages that start another program, or many."""

ALONE = {GUIDES / SEVERAL, GUIDES / "guides" / "spark-pipeline.md", ROOT / "python" / "SPARK.md"}
"""Pages that have databases or a program of their own."""

NOT_RUN = {
    "guides/from-celery.md": ["Celery's code, for comparison"],
    "guides/from-kafka.md": ["Kafka's code, for comparison"],
    "guides/from-pgmq.md": ["needs the extension pgmq"],
    "guides/from-river.md": ["needs Go and pgx"],
    "guides/housekeeping.md": ["needs the extension pg_cron", "a line of a crontab"],
    "guides/http.md": ["the test starts it with these settings"],
    "guides/http-jwt.md": ["the test starts it with these settings"],
    "guides/schedules.md": ["needs the extension pg_cron"],
    SEVERAL: ["the addresses are others each time"],
    "guides/spark-pipeline.md": [
        "it is installed already",
        "the address is another one each time",
    ],
    "install.md": [
        "pgq is installed already",
        "it is installed already",
        "needs the files of the server",
        "pgq is installed already",
        "it would remove what other pages use",
    ],
    "sizing.md": ["formulas"],
    "tutorial.md": [
        "it is installed already",
        "runs until Ctrl-C",
        "the address is another one each time",
    ],
}
"""Blocks of the site that are only shown, by page and reason."""

DOCUMENTS = sorted(
    path
    for path in (
        *(path for path in GUIDES.rglob("*.md") if path.name not in TESTED_ELSEWHERE),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "python" / "PUSH.md",
        ROOT / "python" / "SPARK.md",
        ROOT / "python" / "WORKER.md",
        ROOT / "benchmarks" / "PEERS.md",
        ROOT / "benchmarks" / "README.md",
        ROOT / "sql" / "README.md",
        ROOT / "sql" / "metrics" / "README.md",
    )
    if path.exists()
)
MARKDOWN = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "node_modules" for part in path.parts)
)

_BLOCK = re.compile(
    r"(?P<skipped> *<!-- not run: [^\n]+ -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)

_FILE = re.compile(r"# ([\w/]+\.py)\n")
"""The first line of a block that is a file, beside which the shell runs."""


@dataclass(frozen=True)
class Block:
    """One fenced block of a document."""

    path: Path
    line: int
    language: str
    text: str
    reason: str | None = None
    """Why it is not run."""
    follows: bool = False
    """Whether nothing stands between it and the block before."""

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def _every_block(path: Path) -> Iterator[Block]:
    text = path.read_text()
    end = 0
    for match in _BLOCK.finditer(text):
        skipped = re.search(r"not run: ([^\n]+) -->", match["skipped"] or "")
        yield Block(
            path,
            text.count("\n", 0, match.start("language")) + 1,
            match["language"],
            textwrap.dedent(match["text"]),
            skipped[1] if skipped else None,
            follows=end > 0 and not text[end : match.start()].strip(),
        )
        end = match.end()


def blocks(path: Path) -> Iterator[Block]:
    """The blocks that are to be run."""
    return (block for block in _every_block(path) if block.reason is None)


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _parameters() -> list[Any]:
    slow = {*(GUIDES / name for name in SLOW), ROOT / "python" / "SPARK.md", ROOT / "README.md"}
    return [
        pytest.param(path, id=_relative(path), marks=[pytest.mark.slow] if path in slow else [])
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
    for page in reversed(pages) if backwards else pages:
        _run_document(page, place)


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
            elif block.language == "python" and (named := _FILE.match(block.text)):
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


@pytest.mark.parametrize("guide", sorted((GUIDES / "guides").glob("*.md")), ids=_relative)
def test_python_can_be_typed(guide: Path) -> None:
    """Into a session of python, where only an empty line ends what is indented."""
    for block in blocks(guide):
        typed: list[str] = []
        if block.language != "python" or _FILE.match(block.text):
            continue
        for line in [*block.text.splitlines(), ""]:
            typed.append(line)
            try:
                complete = codeop.compile_command("\n".join(typed), str(block), "single")
            except SyntaxError as error:
                pytest.fail(f"{block}: {error}: {line}")
            if complete is not None:
                typed.clear()
        assert not typed, f"{block} does not end"


def test_what_is_not_run_is_known() -> None:
    """Every block of the site is run, or output, or a diagram, or is listed above."""
    found: dict[str, list[str]] = {}
    unknown = []
    for document in DOCUMENTS:
        if GUIDES not in document.parents:
            continue
        for block in _every_block(document):
            if block.reason is not None:
                name = str(document.relative_to(GUIDES))
                found.setdefault(name, []).append(block.reason)
            elif block.language not in ("sql", "python", "sh", "mermaid") and not (
                block.language == "text" and block.follows
            ):
                unknown.append(block)
    refuse(unknown)
    assert found == NOT_RUN


@pytest.mark.parametrize("document", MARKDOWN, ids=_relative)
def test_the_package_is_not_installed_by_its_name(document: Path) -> None:
    """The pgq on PyPI is another one."""
    blocks = [match["text"] for match in _BLOCK.finditer(document.read_text())]
    refuse(re.findall(r"pip install [^\n]*?(?<!/)\bpgq\b[^\n]*", "\n".join(blocks)))


@pytest.mark.parametrize("document", MARKDOWN, ids=_relative)
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        place = document.parent / name if name else document
        sections = _anchors(place) if place.suffix == ".md" and place.exists() else {anchor}
        if not place.exists() or (anchor and anchor not in sections):
            broken.append(target)
    refuse(broken)


def _anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", MARKDOWN, ids=_relative)
def test_goals_exist(document: Path) -> None:
    goals = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown: set[str] = set()
    for match in _BLOCK.finditer(document.read_text()):
        if match["language"] in ("", "sh", "bash", "shell", "console"):
            for words in re.findall(r"(?:^|\s)make ((?:[a-z-]+ ?)+)", match["text"]):
                shown.update(words.split())
    refuse(sorted(shown - goals))
