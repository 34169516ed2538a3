"""Another system beside those of the benchmark: a folder of SQL files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.house import ROOT

sys.path.append(str(ROOT))

from benchmarks import report, run
from benchmarks.cells import CELLS
from benchmarks.pgbench import BenchmarkError
from benchmarks.systems import PEER, SYSTEMS, add_peer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A system that is like the primitives, but takes single jobs only."""
    folder = tmp_path / "peer"
    shutil.copytree(SYSTEMS[PEER].folder, folder)
    (folder / "job_batch.sql").unlink()
    return folder


@pytest.fixture
def peer(folder: Path) -> Iterator[str]:
    add_peer("peer", folder)
    yield "peer"
    del SYSTEMS["peer"]


def test_a_peer_is_measured_where_it_has_the_scripts(peer: str) -> None:
    with_it = {cell.name for cell in CELLS if peer in run.systems_of(cell, None)}
    assert {"publish-1", "consume-100", "work-1", "snapshot-publish-1"} <= with_it
    assert not {"work-100", "finish-100", "instructions", "carry", "deferred-16"} & with_it
    [cell] = [cell for cell in CELLS if cell.name == "work-100"]
    assert run.systems_of(cell, [peer, "pgq"]) == ["pgq"]


def test_a_peer_has_a_column_and_a_ratio(peer: str) -> None:
    [cell] = [cell for cell in CELLS if cell.name == "publish-1"]
    samples = {"bound": [{"rate": 200.0}], "pgq": [{"rate": 150.0}], peer: [{"rate": 50.0}]}
    heading, line = report.Results({}, list(report.lines_of(cell, samples)), []).rows()
    assert len(heading) == len(line)
    shown = dict(zip(heading, line, strict=True))
    assert (shown[peer], shown["peer ratio"], shown["pgq ratio"]) == ("50", "0.25", "0.75")


@pytest.mark.parametrize("name", ["pgq", "Peer", "", "a b"])
def test_a_name_that_cannot_be(folder: Path, name: str) -> None:
    with pytest.raises(BenchmarkError, match="cannot be the name"):
        add_peer(name, folder)


def test_a_folder_without_a_system(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"no schema\.sql"):
        add_peer("peer", tmp_path)
    assert "peer" not in SYSTEMS


@pytest.mark.slow
def test_a_peer_is_run(folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "benchmarks" / "run.py", "--quick", "--cell", "enqueue-1"),
            *("--peer", f"mine={folder}", "--system", "mine", "--json", tmp_path / "out.json"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [figure] = json.loads((tmp_path / "out.json").read_text())["figures"]
    assert figure["medians"]["mine"] > 0


def test_the_ratios_as_a_picture(peer: str, tmp_path: Path) -> None:
    [cell] = [cell for cell in CELLS if cell.name == "publish-1"]
    samples = {"bound": [{"rate": 200.0}], "pgq": [{"rate": 150.0}], peer: [{"rate": 50.0}]}
    results = report.Results({}, list(report.lines_of(cell, samples)), [])
    assert results.ratios() == {cell.title: {"pgq": 0.75, peer: 0.25}}
    (tmp_path / "figures.json").write_text(results.json())
    written = []
    for name in ("a.svg", "b.svg"):
        chosen = ["--of", str(tmp_path / "figures.json"), "--plot", str(tmp_path / name)]
        assert run.main(chosen) == 0
        written.append((tmp_path / name).read_text())
    assert written[0] == written[1]
    assert all(text in written[0] for text in (cell.title, "pgq", peer))
