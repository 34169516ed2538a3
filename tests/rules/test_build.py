"""The tool that joins the SQL sources."""

from __future__ import annotations

from pathlib import Path

import pytest

import build


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny repository."""
    (tmp_path / "sql" / "log").mkdir(parents=True)
    (tmp_path / "sql" / "install.sql").write_text("-- order\n\n\\ir schema.sql\n\\ir all.sql\n")
    (tmp_path / "sql" / "schema.sql").write_text("create schema s;\n")
    (tmp_path / "sql" / "all.sql").write_text("-- Log\n\\ir log/one.sql\n")
    (tmp_path / "sql" / "log" / "one.sql").write_text("select 1;\n")
    (tmp_path / "pgq.control").write_text("default_version = '7.1.0'\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 7.1.0 (unreleased)\n")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "CONTROL", tmp_path / "pgq.control")
    monkeypatch.setattr(build, "MANIFEST", tmp_path / "sql" / "install.sql")
    return tmp_path


def test_files_are_joined_in_order(tree: Path) -> None:
    assert build.main() == 0
    lines = (tree / "migrations" / "pgq--7.1.0.sql").read_text().splitlines()
    assert lines[0] == r"\echo Installing pgq 7.1.0 \set ON_ERROR_STOP on"
    statements = [line for line in lines[1:] if line and not line.startswith("--")]
    assert statements == ["create schema s;", "select 1;"]


def test_a_forgotten_file_is_named(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "sql" / "log" / "two.sql").write_text("select 2;\n")
    assert build.main() == 1
    assert "sql/log/two.sql" in capsys.readouterr().err


def test_a_missing_file_is_named(tree: Path) -> None:
    (tree / "sql" / "log" / "one.sql").unlink()
    with pytest.raises(SystemExit, match=r"sql/log/one\.sql, which does not exist"):
        build.flatten()


def test_a_psql_command_is_refused(tree: Path) -> None:
    (tree / "sql" / "log" / "one.sql").write_text("\\set x 1\n")
    with pytest.raises(SystemExit, match="psql command"):
        build.flatten()


def test_a_released_script_is_frozen(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main() == 0
    (tree / "CHANGELOG.md").write_text("# Changes\n\n## 7.1.0 (2026-01-02)\n")
    assert build.main() == 0
    (tree / "sql" / "log" / "one.sql").write_text("select 2;\n")
    assert build.main() == 1
    assert "never changes" in capsys.readouterr().err
    assert "select 1;" in (tree / "migrations" / "pgq--7.1.0.sql").read_text()
