"""The reference shows the API as it is in the database, with examples that run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgq.embedded import Server
from reference import PAGES, REFERENCE, examples, features
from support.house import ROOT, refuse
from support.pg_cron import STAND_IN
from support.session import Session

Table = list[tuple[str, ...]]

EXAMPLES = sorted((ROOT / "sql").rglob("examples.psql"))

NOTHING_TO_DO = {"cleanup", "list_cleanup_failures"}
"""In a database that is a second old."""


def _sections() -> dict[str, str]:
    """The text of each entry of the pages."""
    pages = "".join(page.read_text() for page in sorted(PAGES.glob("*.md")))
    found = re.findall(r"^## (\w+)\n(.*?)(?=^## |^<!-- |\Z)", pages, re.MULTILINE | re.DOTALL)
    sections = dict(found)
    assert len(sections) == len(found)
    return sections


def _table(section: str, heading: str) -> Table:
    """The rows of the table with that first cell, as the page has them."""
    table = re.search(rf"^\| {heading} \|.*\n\|-.*\n((?:\|.*\n)*)", section, re.MULTILINE)
    rows = table[1].splitlines() if table else []
    return [tuple(cell.strip("` ") for cell in row.strip("| ").split(" | ")) for row in rows]


def _columns(connection: Session, relation: str) -> Table:
    return connection.execute(
        "select attname::text, format_type(atttypid, atttypmod),"
        " replace(col_description(attrelid, attnum), E'\n', ' ')"
        " from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped"
        " order by attnum",
        [relation],
    ).fetchall()


def _names(connection: Session, query: str) -> list[str]:
    return [str(name) for (name,) in connection.execute(query.encode())]


def _functions(connection: Session) -> list[str]:
    return _names(
        connection,
        "select proname from pg_proc where pronamespace = 'pgq'::regnamespace"
        " and proname !~ '^_' and prorettype <> 'trigger'::regtype",
    )


def _views(connection: Session) -> list[str]:
    return _names(
        connection,
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relkind = 'v' and relname !~ '^_'",
    )


def test_all_of_the_api_is_there_and_nothing_else(connection: Session) -> None:
    assert sorted(_sections()) == sorted(_functions(connection) + _views(connection))


def test_arguments_and_defaults(connection: Session) -> None:
    rows = connection.execute(
        """
        select p.proname,
            p.proargnames[n],
            format_type(p.proargtypes[n - 1], null),
            coalesce(
                regexp_replace(
                    regexp_replace(pg_get_function_arg_default(p.oid, n), '::[a-z \\[\\]]+$', ''),
                    '^NULL$', 'null'
                ),
                'required'
            )
        from pg_proc as p
        cross join generate_series(1, p.pronargs) as n
        where p.pronamespace = 'pgq'::regnamespace and p.proname !~ '^_'
        order by p.proname, n
        """
    ).fetchall()
    shown = [
        (name, *row)
        for name, section in sorted(_sections().items())
        for row in _table(section, "argument")
    ]
    assert shown == rows


def test_results(connection: Session) -> None:
    """Columns are shown where the first function returns them; others name that one."""
    sections = _sections()
    rows = connection.execute(
        """
        select p.proname,
            format_type(p.prorettype, null),
            p.provolatile = 'v',
            case when t.typtype = 'c' then t.typrelid::regclass::text end,
            p.proargnames[p.pronargs + 1:]
        from pg_proc as p
        join pg_type as t on t.oid = p.prorettype
        where p.pronamespace = 'pgq'::regnamespace and p.proname !~ '^_'
        """
    ).fetchall()
    for name, result, changes, composite, table in rows:
        section = sections[name]
        work = "Changes data." if changes else "Reads only; can be called by GET."
        returns = re.search(rf"^{re.escape(work)} Returns (.*)[.:]$", section, re.MULTILINE)
        assert returns, name
        if composite is not None:
            assert f"`{composite}`" in returns[1], name
            elsewhere = re.search(r"with the columns of \[(\w+)\]\(\S*#\1\)", returns[1])
            shown = _table(sections[elsewhere[1]] if elsewhere else section, "column")
            assert shown == _columns(connection, composite), name
        elif table:
            assert [column for column, _ in _table(section, "column")] == table, name
        else:
            assert returns[1].removeprefix("rows of ") == (
                "nothing" if result == "void" else result
            ), name


def test_views(connection: Session) -> None:
    sections = _sections()
    for name in _views(connection):
        assert _table(sections[name], "column") == _columns(connection, f"pgq.{name}"), name


def test_comments_are_whole(connection: Session) -> None:
    rows = connection.execute(
        "select proname, obj_description(oid, 'pg_proc') from pg_proc"
        " where pronamespace = 'pgq'::regnamespace and proname !~ '^_'"
        " union all select relname, obj_description(oid, 'pg_class') from pg_class"
        " where relnamespace = 'pgq'::regnamespace and relkind = 'v'"
    ).fetchall()
    sections = _sections()
    refuse(
        f"{name}: {line}"
        for name, comment in rows
        for line in comment.splitlines()
        if line not in sections[name].splitlines()
    )


def test_contents_name_every_page_and_entry() -> None:
    titles = {
        folder: each.title for folder, each in features().items() if each.functions or each.views
    }
    contents = REFERENCE.read_text()
    assert dict(re.findall(r"^- \[(.+)\]\(reference/(\w+)\.md\)$", contents, re.M)) == {
        title: folder for folder, title in titles.items()
    }
    assert sorted(page.stem for page in PAGES.iterdir()) == sorted(titles)
    for folder, title in titles.items():
        page = (PAGES / f"{folder}.md").read_text()
        assert f"\n# {title}\n" in page
        refuse(
            name
            for name in re.findall(r"^## (\w+)$", page, re.MULTILINE)
            if f"[{name}](reference/{folder}.md#{name})" not in contents
        )


def test_everything_has_an_example_that_uses_it(connection: Session) -> None:
    shown = examples()
    assert sorted(shown) == sorted(_functions(connection) + _views(connection))
    refuse(name for name, text in shown.items() if not re.search(rf"\bpgq\.{name}\b", text))
    sections = _sections()
    refuse(name for name, text in shown.items() if f"```sql\n{text}\n```" not in sections[name])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_examples_run(path: Path, dsn: str, server: Server) -> None:
    """From top to bottom; each of them finds something to do."""
    if path.parent.name == "retention":
        server.run("psql", "-X", "-d", dsn, "-f", STAND_IN)
    done = server.run(
        "psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", str(conninfo_to_dict(dsn)["dbname"]),
        input=re.sub(r"^-- (\w+)$", r"\\echo -- \1", path.read_text(), flags=re.MULTILINE),
    )  # fmt: skip
    _, *answers = re.split(r"^-- (?=\w+$)", done.stdout, flags=re.MULTILINE)
    refuse(
        answer
        for answer in answers
        if re.search(r"^\(0 rows\)$|^ f$", answer, re.MULTILINE)
        and answer.split()[0] not in NOTHING_TO_DO
    )
