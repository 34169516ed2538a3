"""Type checkers accept the Python programs of the documents, as strictly as they can."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pgq
from support.house import ROOT
from support.pages import DOCUMENTS, FILE, SEVERAL, blocks

FRAGMENTS = {"CONTRIBUTING.md", f"python/docs/{SEVERAL}"}
"""Documents whose Python blocks are parts of programs."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program for each document, of all its blocks; not those that a session of Spark runs."""
    folder = tmp_path_factory.mktemp("programs")
    for document in DOCUMENTS:
        name = str(document.relative_to(ROOT))
        parts = [
            block.text
            for block in blocks(document)
            if block.language == "python" and not FILE.match(block.text)
        ]
        if parts and name not in FRAGMENTS and "pyspark" not in document.read_text():
            path = folder / (name.removesuffix(".md").replace("/", "_").replace("-", "_") + ".py")
            path.write_text("\n\n".join(parts))
    assert len(list(folder.iterdir())) > 15
    return folder


@pytest.mark.parametrize(
    "checker",
    [
        pytest.param(["mypy", "--strict", "--config-file=", "--cache-dir=.cache"], id="mypy"),
        pytest.param(["pyright", "--pythonpath", sys.executable], id="pyright"),
    ],
)
@pytest.mark.slow
def test_programs_are_typed(checker: list[str], programs: Path) -> None:
    source = str(Path(pgq.__file__).parent.parent)
    (programs / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{source}"]}}')
    done = subprocess.run(
        [sys.executable, "-m", *checker, "."],
        cwd=programs,
        env={**os.environ, "MYPYPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
