"""What all commands have in common."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from pgq import Client
from pgq._extras import install
from pgq.cli._app import app
from support.command import Run
from support.house import ROOT, refuse


def commands(node: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands with the words that call them."""
    node = get_command(app) if node is None else node
    for name, child in getattr(node, "commands", {}).items():
        if hasattr(child, "commands"):
            yield from commands(child, (*path, name))
        else:
            yield (*path, name), child


ALL = dict(commands())


def test_there_is_what_was_promised() -> None:
    families = {"topics", "groups", "queues", "subscriptions", "schedules"}
    assert families <= {path[0] for path in ALL}
    single = (
        "publish enqueue consume tail peek seek redrive purge cancel retry jobs job lag top "
        "metrics ui workers doctor server migrate status work push demo demo-spark cleanup "
        "housekeeping"
    )
    assert {(name,) for name in single.split()} <= set(ALL)


def test_every_command_explains_itself() -> None:
    """A summary, an example that calls it, and a help for what is not plain."""

    def broken() -> Iterator[str]:
        for path, node in ALL.items():
            name = " ".join(("pgq", *path))
            if not node.help or "Examples:" not in node.help or f"  {name}" not in node.help:
                yield f"{name} has no examples"
            if not node.get_short_help_str(200).rstrip().endswith("."):
                yield f"{name} has no summary"
            for parameter in node.params:
                if str(parameter.opts[0]).startswith("-") and not parameter.help:
                    yield f"{name} {parameter.opts[0]} has no help"

    assert len(ALL) > 45
    refuse(broken())


def test_examples_are_no_mistakes() -> None:
    """Each example parses: commands and options are there."""
    import shlex

    def broken() -> Iterator[str]:
        root = get_command(app)
        for node in ALL.values():
            for line in node.help.partition("Examples:")[2].splitlines():
                for part in line.split("|"):
                    words = shlex.split(part.partition(">>")[0])
                    if not words or words[0] != "pgq":
                        continue
                    try:
                        found, rest = root, words[1:]
                        while hasattr(found, "commands"):
                            found, rest = found.commands[rest[0]], rest[1:]
                        found.make_context("pgq", list(rest))
                    except KeyError as error:
                        yield f"{part}: no command {error}"
                    except Exception as error:
                        yield f"{part}: {error}"

    refuse(broken())


def test_every_command_shows_its_help(pgq: Run) -> None:
    for path in (("topics",), ("topics", "create"), ("doctor",), ("publish",)):
        done = pgq(*path, "--help")
        assert done.status == 0
        assert f"Usage: pgq {' '.join(path)}" in done.out
    assert "\n    pgq topics create orders\n" in pgq("topics", "create", "--help").out


def test_wrong_usage(pgq: Run) -> None:
    for arguments in (
        ["nothing"],
        ["topics", "show"],
        ["lag", "--nothing"],
        ["tail", "x", "-n", "y"],
        ["seek", "a", "b", "--at"],
    ):
        done = pgq(*arguments)
        assert (done.status, done.out) == (2, "")
        assert re.fullmatch(r"pgq: [^\n]+; HINT: pgq[a-z ]* --help\n", done.err)
    assert "HINT: pgq groups create --help" in pgq("groups", "create", "a", "b", "--start").err


def test_a_database_that_is_not_named(pgq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hint = "; HINT: DATABASE_URL is not set, and no address was given\n"
    monkeypatch.setenv("PGHOST", "/nowhere")
    monkeypatch.delenv("DATABASE_URL")
    assert pgq("status").err.endswith(hint)
    assert pgq("migrate").err.endswith(hint)
    assert pgq("ui", "--no-browser").err.endswith(hint)
    script = subprocess.run(
        [sys.executable, "-m", "pgq.migrate"], capture_output=True, text=True, check=False
    )
    assert script.stderr.endswith(hint)
    monkeypatch.setenv("DATABASE_URL", "host=/nowhere")
    assert not pgq("status").err.endswith(hint)


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "create", "no name"],
        ["groups", "create", "t", "g", "--start", "soon"],
        ["queues", "create", "q", "--lease", "0s"],
        ["schedules", "next", "nonsense"],
        ["jobs", "q", "--state", "odd"],
        ["peek"],
        ["peek", "q", "--state", "finished"],
        ["publish", "t", "no JSON"],
        ["publish", "t", "1", "--file", "x"],
        ["subscriptions", "create", "s", "t", "q", "--filter", "no JSON"],
        ["metrics", "--listen", "nonsense"],
        ["work", "nonsense"],
        ["work", "app:handlers", "--poll", "1h"],
        ["top"],
    ],
    ids=" ".join,
)
def test_wrong_values(pgq: Run, client: Client, arguments: list[str]) -> None:
    client.admin.create_topic("t")
    client.admin.create_queue("q")
    done = pgq(*arguments)
    assert (done.status, done.out) == (2, "")
    assert re.fullmatch(r"pgq: [^\n]+\n", done.err)
    assert not re.search(r'argument "', done.err)


def test_hints_name_commands_and_options(pgq: Run, client: Client) -> None:
    unknown = pgq("publish", "nowhere", "1").err
    assert (
        "; HINT: pgq topics create creates it; if it exists, this role needs pgq access grant."
        in unknown
    )
    client.admin.create_queue("q")
    neither = pgq(*["schedules", "create", "s", "--queue", "q", "--payload", "1"])
    assert (neither.status, neither.err) == (
        2,
        "pgq: --cron, --every: exactly one is needed; HINT: Pass --cron, like "
        "'30 8 * * MON-FRI', or --every, like '1 hour'.\n",
    )
    schedule = "schedules create s --queue q --every 1s --missed all --payload 1"
    many = pgq(*schedule.split(), "--starts-at", "1900-01-01")
    assert many.status == 2
    assert many.err.startswith("pgq: --missed must not be all for more than ")
    assert many.err.endswith("; HINT: Pass a later --starts-at, or --missed one.\n")


def test_commands_in_hints_are_there() -> None:
    """Whatever function a hint of the database names: the command that takes its place exists."""
    from pgq.cli._errors import _FUNCTIONS, _command

    texts = "".join(path.read_text() for path in (ROOT / "sql").rglob("*.sql"))
    named = {_FUNCTIONS.sub(_command, found[0]) for found in _FUNCTIONS.finditer(texts)}
    assert {"pgq topics create", "pgq queues list", "pgq access grant"} <= named
    assert {tuple(one.split()[1:]) for one in named} <= set(ALL)


def test_an_option_has_one_name() -> None:
    """The same letter means the same everywhere; what is read can be had as JSON."""
    letters: dict[str, set[str]] = {}
    for node in ALL.values():
        options = [one for one in node.params if one.opts[0].startswith("--")]
        names = {one.opts[0] for one in options}
        assert "--json" in names or "--wide" not in names
        assert not names & {"--max", "--max-jobs", "--lines", "--dsn"}
        for one in options:
            for letter in one.opts[1:]:
                letters.setdefault(letter, set()).add(one.opts[0])
    assert {letter: len(names) for letter, names in letters.items() if len(names) > 1} == {}
    for reading in ("status", "lag", "jobs", "job", "peek", "tail", "top", "workers", "metrics"):
        assert "--json" in {one.opts[0] for one in ALL[reading,].params}


def test_errors_are_one_line(pgq: Run) -> None:
    for place, told in (
        ("host=127.0.0.1 port=1", "refused"),
        ("nonsense", "neither a URL nor"),
        ("postgresql://127.0.0.1:1/x?nothing=1", "nothing"),
    ):
        done = pgq("lag", "--database", place)
        assert (done.status, done.out) == (1, "")
        assert done.err.startswith("pgq: ")
        assert told in done.err
        assert len(done.err.splitlines()) == 1


def test_a_mistake_of_ours_is_one_line_too(pgq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **settings: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("pgq.cli._topics.show_rows", broken)
    done = pgq("topics", "list")
    assert done.status == 1
    assert done.err == (
        "pgq: this is a mistake in pgq, RuntimeError: broken; HINT: with PGQ_TRACEBACK=1 it says "
        "where\n"
    )


@pytest.mark.slow
def test_a_reader_that_leaves(dsn: str) -> None:
    """As `| head -1` does; the output is more than a pipe holds."""
    done = subprocess.run(
        [
            "sh",
            "-c",
            'for n in 1 2 3 4 5 6; do seq 1 20000; done | "$0" -m pgq publish big --format lines '
            '>/dev/null; { "$0" -m pgq tail big -n 90000 --json; echo $? >&2; } | head -n 1',
            sys.executable,
        ],
        env={**os.environ, "DATABASE_URL": _with_topic(dsn)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == "141\n"


def _with_topic(dsn: str) -> str:
    import psycopg

    from pgq import Client

    with psycopg.connect(dsn) as connection:
        Client(connection).admin.create_topic("big", partitions=1)
    return dsn


def test_the_client_needs_neither_typer_nor_rich() -> None:
    program = (
        "import sys; import pgq, pgq.worker, pgq.consumer, pgq.producer, pgq.migrate; "
        "print([name for name in sys.modules if name.partition('.')[0] in "
        "('typer', 'rich', 'click', 'pydantic')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_without_the_extra_it_says_what_to_install() -> None:
    for module in ("typer", "rich"):
        program = f"import sys; sys.modules['{module}'] = None; from pgq.__main__ import main; "
        done = subprocess.run(
            [sys.executable, "-c", program + "sys.exit(main(['topics', 'list']))"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert f"pgq: the module {module}" in done.stderr
        assert install("cli") in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_page_that_is_not_installed(pgq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pgq.ui", None)
    done = pgq("ui", "--no-browser")
    assert done.status == 1
    assert done.err.endswith(f": {install('ui')}\n")


def test_an_extra_is_said_by_its_libraries() -> None:
    """There may be no index that has the package."""
    said = "install the extra cli: pip install 'rich>=13.8' 'typer<1,>=0.16'"
    assert install("cli") == said
    assert "pyspark" not in install("spark-cluster")
    assert {"pyspark", "pandas", "psutil", "typer"} <= {*re.findall(r"\w+", install("demo,spark"))}
    refuse(
        path
        for path in (ROOT / "python" / "src" / "pgq").rglob("*.py")
        if "pip install 'pgq-sql" in path.read_text()
    )


_MAY = {
    "cli/_catalog.py": "doctor asks the catalog",
    "cli/_job.py": "a statement_timeout, for a look through the archive",
    "cli/_complete.py": "a statement_timeout, for nobody waits long at a prompt",
}


def test_the_command_line_has_no_sql_but_in_one_module() -> None:
    """What it does goes through the client, so that it can do what the role may, and no more."""

    def broken() -> Iterator[str]:
        folder = ROOT / "python" / "src" / "pgq"
        for path in sorted((folder / "cli").rglob("*.py")):
            name = path.relative_to(folder).as_posix()
            for node in ast.walk(ast.parse(path.read_text())):
                called = getattr(getattr(node, "func", None), "attr", "")
                runs = called in ("execute", "executemany", "copy", "stream")
                if runs and name not in _MAY:
                    yield f"{name}:{node.lineno}"

    refuse(broken())
