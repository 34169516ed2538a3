"""What the sources say once is written out for each leaf, and for those that come later."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from build import flatten
from leaves import write_out

INSTALLED = 16  # leaves that an installation makes


def _written(tmp_path: Path, source: str) -> str:
    path = tmp_path / "of_a_leaf.sql"
    path.write_text(source)
    return write_out(path)


def test_a_statement_for_each_leaf(tmp_path: Path) -> None:
    """The first leaves have a statement each, the others share one that is planned at each call."""
    text = _written(
        tmp_path,
        "begin\n"
        "    -- for the first 3 leaves: home.segment\n"
        "    insert into pgq.message_{leaf} (log_offset)\n"
        "    values ({home.log_offset} % 7)\n"
        "    returning log_offset\n"
        "    into stored;\n"
        "    -- end of the leaf\n"
        "end\n",
    )
    for leaf in range(3):
        assert text.count(f"insert into pgq.message_{leaf} (log_offset)") == 1
    assert text.count("values (home.log_offset % 7)") == 3
    assert "insert into pgq.message_%1$s (log_offset)" in text
    assert "values ($1 %% 7)" in text
    assert re.search(r"\$leaf\$, home\.segment\)\n\s+into stored\n\s+using home\.log_offset;", text)


def test_rows_are_returned(tmp_path: Path) -> None:
    text = _written(
        tmp_path,
        "-- for the first 3 leaves: leaf\n"
        "return query\n"
        "select m.key\n"
        "from pgq.message_{leaf} as m;\n"
        "-- end of the leaf\n",
    )
    assert len(re.findall(r"return query\s+select", text)) == 3
    assert text.count("return query execute format(") == 1


@pytest.mark.parametrize(
    "source",
    [
        "-- for the first 3 leaves: leaf\nselect 1 from pgq.message_{leaf};\n",
        "select 1;\n-- end of the leaf\n",
        "-- for the first 3 leaves: leaf\nselect 1 from pgq.message;\n-- end of the leaf\n",
    ],
)
def test_what_is_not_marked_well(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match="leaf"):
        _written(tmp_path, source)


def test_a_shared_part(tmp_path: Path) -> None:
    """It is pasted with the indentation of its mark, and knows the function that it is in."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.plpgsql").write_text("return {function}.queue;\n")
    text = _written(tmp_path, "begin\n    -- paste: parts/one.plpgsql\nend\n")
    assert text == "begin\n    return of_a_leaf.queue;\nend\n"


def test_a_shared_part_with_values(tmp_path: Path) -> None:
    """What the mark says of it is put in, also within a statement that names its leaf."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.plpgsql").write_text(
        "number := {number};\n"
        "-- for the first 3 leaves: leaf\n"
        "select {least} from pgq.message_{leaf} where log_offset = {{number}};\n"
        "-- end of the leaf\n"
    )
    text = _written(
        tmp_path, "-- paste: parts/one.plpgsql with number = of_a_leaf.ids[1], least = 7\n"
    )
    assert text.startswith("number := of_a_leaf.ids[1];\n")
    assert "select 7 from pgq.message_2 where log_offset = of_a_leaf.ids[1];" in text
    assert "using of_a_leaf.ids[1];" in text


def test_the_first_leaves() -> None:
    """_lock_leaf is skipped for those that the installation has made."""
    script = flatten()
    assert f"for leaf in 0 .. {INSTALLED - 1} loop" in script
    conditions = re.findall(r"if \S*leaf > (\d+) then", script)
    assert len(conditions) >= 5
    assert set(conditions) == {str(INSTALLED - 1)}


def test_inserts_go_through_the_parent() -> None:
    """It routes them, and locks the leaf that gets the row, and no other."""
    sources = (Path(__file__).parents[2] / "sql").rglob("*.*sql")
    inserts = re.compile(r"insert into pgq\.\w+_\{leaf\}[^;]*", re.IGNORECASE)
    assert [path.name for path in sources if inserts.search(path.read_text())] == []


def test_nothing_marked_is_left() -> None:
    script = flatten()
    assert "{leaf}" not in script
    assert "-- paste:" not in script


def test_nobody_asks_whether_a_row_was_found() -> None:
    """EXECUTE, by which the later leaves are read and written, leaves FOUND as it was."""
    script = re.compile(r"-- end of the leaf\n\s*(?:end loop;\s*)?[^;]*?\bfound\b", re.IGNORECASE)
    sources = (Path(__file__).parents[2] / "sql").rglob("*.sql")
    assert [path.name for path in sources if script.search(path.read_text())] == []
