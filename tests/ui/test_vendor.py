"""What the page has of others: as it was taken, with its licence, and in the wheel."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from vendor import FOLDER, LIST, differences


def test_it_is_as_it_was_taken() -> None:
    assert differences() == []


def test_each_has_its_licence() -> None:
    for package in json.loads(LIST.read_text()):
        [licence] = [name for name in package["files"] if name.startswith("LICENSE.")]
        assert "Copyright" in (FOLDER / licence).read_text()
        assert package["integrity"].startswith("sha512-")


def test_a_change_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    (tmp_path / "htm.mjs").write_text("export default 1;")
    (tmp_path / "preact.mjs").unlink()
    (tmp_path / "more.mjs").touch()
    assert differences(tmp_path) == [
        "preact.mjs is missing",
        "htm.mjs is not that of htm 3.1.1",
        "more.mjs is in no list",
    ]
