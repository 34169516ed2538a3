"""The programs beside the runner: what they measure, and how they judge it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.house import ROOT

sys.path.append(str(ROOT))

from benchmarks import compare, deferred, instructions, worker
from benchmarks.calls import CALLS
from benchmarks.pgbench import BenchmarkError
from benchmarks.revisions import installed
from benchmarks.systems import install_script


def test_every_rate_of_pgq_is_compared():
    names = {cell.name for cell in compare.COMPARED}
    assert {"publish-1", "consume-1000", "enqueue-1", "ordered-1", "finish-100"} <= names
    assert not {"deferred-16", "publish-wal", "snapshot-publish-1"} & names


def test_a_rate_that_the_other_version_cannot_have_is_left_out():
    [cell] = [cell for cell in compare.COMPARED if cell.name == "finish-1"]
    today = install_script().read_text()
    assert compare.lacking(cell, today) == []
    before = today.replace("create function pgq.finish_and_claim(", "create function pgq.other(")
    assert compare.lacking(cell, before) == ["finish_and_claim"]


def git(folder: Path, *arguments: str):
    own = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two revisions of one SQL file, and with today's build.py."""
    if shutil.which("git") is None:
        pytest.skip("no git")
    tools, sql = tmp_path / "python" / "tools", tmp_path / "sql"
    shutil.copytree(ROOT / "python" / "tools", tools, ignore=shutil.ignore_patterns("__pycache__"))
    sql.mkdir()
    (sql / "install.sql").write_text("\\ir first.sql\n")
    (sql / "first.sql").write_text("select 1;\n")
    (tmp_path / "pgq.control").write_text("default_version = '7.0.0'\n")
    (tmp_path / "CHANGELOG.md").write_text("## 7.0.0 (unreleased)\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    git(tmp_path, "tag", "one")
    (sql / "first.sql").write_text("select 2;\n")
    git(tmp_path, "commit", "-a", "-m", "two")
    return tmp_path


def test_the_install_script_of_a_revision(repository: Path):
    with installed("one", root=repository) as one, installed("HEAD", root=repository) as two:
        assert one.script.name == "pgq--7.0.0.sql"
        assert one.name.startswith("one (")
        assert "select 1;" in one.script.read_text()
        assert "select 2;" in two.script.read_text()
    assert not one.script.exists()
    assert not (repository / "migrations").exists()


def test_an_install_script_is_taken_as_it_is(tmp_path: Path):
    script = tmp_path / "sketch.sql"
    script.write_text("select 1;")
    with installed(str(script)) as found:
        assert found.script == script
    assert script.exists()


def test_a_revision_without_what_is_built(repository: Path):
    git(repository, "rm", "-r", "sql")
    git(repository, "commit", "-m", "three")
    with pytest.raises(BenchmarkError, match="revision HEAD has no sql"):
        with installed("HEAD", root=repository):
            pass


@pytest.mark.parametrize(
    ("program", "option"), [(compare, "--before"), (compare, "--sql"), (instructions, "--sql")]
)
@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_an_unknown_revision_is_one_line(
    program: object, option: str, capsys: pytest.CaptureFixture[str]
):
    known = ["--before", str(install_script())] if program is compare else []
    assert program.main([*known, option, "no-such"]) != 0  # type: ignore[attr-defined]
    [line] = capsys.readouterr().err.splitlines()
    assert line == "no-such is neither a file nor a revision that git knows"


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ([0.98, 1.03, 0.99, 1.01], "within noise"),
        ([0.90, 0.91, 0.89, 0.90], "slower"),
        ([1.10, 1.12, 1.11], "faster"),
        ([0.5, 1.0, 0.9], "within noise"),
        ([0.97, 0.97, 0.97], "slower"),
    ],
)
def test_rounds_say_what_is_noise(rounds: list[float], verdict: str):
    found = compare.trust([rounds])
    assert found is not None
    assert found.low <= found.ratio <= found.high
    assert found.verdict == verdict


def test_a_known_range():
    # mean 0, deviation 0.1, 4 rounds: 3.182 * 0.1 / 2 on either side
    found = compare.trust([[2.718281828 ** (0.1 * sign * 0.75**0.5) for sign in (1, -1, 1, -1)]])
    assert found is not None
    assert found.ratio == pytest.approx(1)
    assert found.high == pytest.approx(2.718281828**0.1591, rel=1e-3)


def test_cells_together_are_known_better_than_one():
    one = [0.95, 1.05, 0.97, 1.02]
    alone, together = compare.trust([one]), compare.trust([one] * 9)
    assert alone is not None
    assert together is not None
    assert together.noise < alone.noise / 2
    assert compare.trust([one, [1.0, 1.0]]) is None
    assert compare.trust([]) is None


def test_a_comparison_is_a_line_with_its_rounds():
    few = compare.Comparison(cell="c", title="calls", unit="calls/s", before=[10], now=[9])
    assert few.row() == ["calls", "10", "9", "calls/s", "", "", "too few rounds", "1: 0.90 to 0.90"]
    many = compare.Comparison(
        cell="c", title="calls", unit="calls/s", before=[10, 20, 30], now=[11, 19, 30]
    )
    assert many.row()[:3] == ["calls", "20", "19"]
    assert many.row()[-2:] == ["within noise", "3: 0.95 to 1.10"]
    assert len({len(row) for row in compare.rows([few, many])}) == 1


def test_a_figure_of_deferred_topics_knows_its_target():
    soon = deferred.Figure(what="p99", unit="ms", target=10, at_most=True, rounds=[3.0, 30.0, 9.5])
    assert (soon.value, soon.met) == (9.5, True)
    assert soon.row() == ["p99", "9.50", "ms", "<= 10", "pass", "3.00 to 30.00"]
    assert soon.written()["met"] is True
    many = deferred.Figure(what="open", unit="messages/s", target=576, rounds=[575.0])
    assert many.row()[-2] == "MISS"
    assert deferred.Figure(what="x", unit="share", rounds=[1.0]).met is None


def test_a_way_of_the_worker_is_judged_by_the_ratios_of_its_rounds():
    base = worker.Series(what="jobs", by="pgbench", rates=[10, 20, 10], computed=[1e-4] * 3)
    own = worker.Series(what="jobs", by="threads", rates=[6, 10, 7], computed=[2e-4] * 3)
    figure = worker.Figure(own=own, base=base)
    assert (figure.ratio, figure.met) == (0.6, True)
    assert figure.row() == ["jobs", "threads", "7", "0.60", ">= 0.6", "pass", "200.0", "0.50"]
    assert worker.Figure(own=base, base=base).met is None
    assert len(figure.row()) == len(worker.HEADING)


@pytest.mark.parametrize(
    ("program", "wrong"),
    [
        (compare, ["--rounds", "0"]),
        (deferred, ["--part", "none"]),
        (deferred, ["--seconds", "0"]),
        (worker, ["--jobs", "1500"]),
    ],
)
def test_what_cannot_be_measured_is_refused(
    program: object, wrong: list[str], capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        program.options(wrong)  # type: ignore[attr-defined]
    assert "usage" in capsys.readouterr().err


def test_calls_with_many_topics_of_their_own_are_counted_apart():
    apart = {call.name for call in CALLS if call.database != "postgres"}
    assert apart == {"publish_deferred", "assign_offsets", "assign_offsets_100"}
