"""The program that breaks the SQL on purpose; ``make mutants`` runs it on many."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mutants import report
from mutants.mutant import Mutant, choose, mutants_of, shares
from mutants.order import Order
from mutants.sources import bodies, folder_of, masked, sources
from mutants.tree import Tree
from mutants.trial import Result, Results, Trials
from support.house import ROOT

FUNCTION = """create function pgq.f(a integer)
returns integer
language plpgsql
as $$
begin
{body}
end
$$;

comment on function pgq.f(integer) is
'Waits where a < b and c > d, for update.';
"""


def changed(tmp_path: Path, kind: str, body: str) -> list[str]:
    """What a kind of mutant makes of a body."""
    path = tmp_path / "sql" / "log" / "f.sql"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FUNCTION.format(body=body))
    ends = FUNCTION.split("{body}")
    return [
        mutant.after.removeprefix(ends[0]).removesuffix(ends[1])
        for mutant in mutants_of(tmp_path, path)
        if mutant.kind == kind
    ]


SELECT = """    select s.a
    from s
    where s.a = 1
        and s.b = any(
            c
        )
    order by s.a
    limit 1
    for update of s skip locked;"""


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("lock", "    x\n    for no key update;", ["    x;"]),
        ("lock", "    perform pg_advisory_xact_lock(a, b);", ["    null;"]),
        ("lock", "    lock table pgq.a in share mode;", ["    null;"]),
        ("lock", "    for x in\n        y\n    loop", []),
        ("comparison", "    a < b", ["    a <= b"]),
        ("comparison", "    a >= b", ["    a > b"]),
        ("comparison", "    if a = b then", ["    if a <> b then"]),
        ("comparison", "    a is null", ["    a is not null"]),
        ("comparison", "    a is not distinct from b", ["    a is distinct from b"]),
        ("comparison", "    set a = b;", []),
        ("comparison", "        using errcode = '22004';", []),
        ("comparison", "    a => b", []),
        ("logic", "    a and b", ["    a or b"]),
        ("logic", "    a between b and c", []),
        ("if", "    if a then\n    end if;", ["    if (a) is not true then\n    end if;"]),
        ("if", "    exit when a = b;", ["    exit when (a = b) is not true;"]),
        ("if", "    if a then x;\n    elsif b then y;", None),
        ("check", "    perform pgq._check_count(a);", ["    null;"]),
        ("check", "    if a then\n        raise exception 'a;b'\n        using c;", None),
        ("statement", "    delete from pgq.a as b\n    where c;", ["    null;"]),
        ("statement", "    with a as (\n        delete from pgq.a\n    )\n    b;", []),
        ("statement", "    perform pgq._move(a);", ["    null;"]),
        ("off-by-one", "    a + 1", ["    a"]),
        ("off-by-one", "    a - 1.5", []),
        ("off-by-one", "    x\n    limit most;", ["    x\n    limit most + 1;"]),
        ("coalesce", "    coalesce(f(a, b), c)", ["    coalesce(c, f(a, b))"]),
        ("coalesce", "    coalesce(a, b, c)", []),
        ("extreme", "    least(a, min(b))", ["    greatest(a, min(b))", "    least(a, max(b))"]),
        ("order", SELECT, [SELECT.replace("\n    order by s.a", "")]),
        (
            "where",
            SELECT,
            [
                SELECT.replace("\n        and s.b = any(\n            c\n        )", ""),
                SELECT.replace("where s.a = 1", "where true"),
            ],
        ),
        (
            "lock",
            SELECT,
            [
                SELECT.replace("\n    for update of s skip locked", ""),
                SELECT.replace(" skip locked", ""),
            ],
        ),
    ],
)
def test_what_a_kind_makes(
    tmp_path: Path, kind: str, body: str, expected: list[str] | None
) -> None:
    found = changed(tmp_path, kind, body)
    if expected is None:
        assert len(found) == body.count("if") - body.count("end if") or kind == "check"
        assert all("'a;b'" not in text for text in found if kind == "check")
    else:
        assert [text.split() for text in found] == [text.split() for text in expected]


def test_comments_and_texts_stay() -> None:
    for path in sources(ROOT):
        text = path.read_text()
        hidden = masked(text)
        assert len(hidden) == len(text)
        for mutant in mutants_of(ROOT, path):
            inside = [text[begin:end] for begin, end in bodies(path, text)]
            assert mutant.before == text != mutant.after
            around = text
            for body in inside:
                around = around.replace(body, "")
            assert around.splitlines()[-1:] == mutant.after.splitlines()[-1:] or not around


def every_mutant() -> list[Mutant]:
    return [mutant for path in sources(ROOT) for mutant in mutants_of(ROOT, path)]


def test_each_has_a_name_of_its_own() -> None:
    found = [mutant.identity for mutant in every_mutant()]
    assert len(found) == len(set(found)) > 5000


def test_the_name_stays_when_lines_move(tmp_path: Path) -> None:
    path = tmp_path / "sql" / "log" / "f.sql"
    path.parent.mkdir(parents=True)
    path.write_text(FUNCTION.format(body="    a < b;"))
    [first] = mutants_of(tmp_path, path)
    path.write_text(FUNCTION.format(body="    x;\n    a < b;"))
    [moved] = mutants_of(tmp_path, path)
    assert (moved.identity, moved.line) == (first.identity, first.line + 1)


def test_a_choice_is_spread_and_comes_again() -> None:
    chosen = choose(ROOT, 130, 7)
    assert [mutant.name for mutant in choose(ROOT, 130, 7)] == [mutant.name for mutant in chosen]
    assert {mutant.name for mutant in chosen} != {mutant.name for mutant in choose(ROOT, 130, 8)}
    folders = {
        folder_of(path.relative_to(ROOT).as_posix()) for path in (ROOT / "sql").rglob("tables.sql")
    }
    assert len(chosen) == 130
    assert folders <= {mutant.folder for mutant in chosen}
    assert len({mutant.kind for mutant in chosen[:40]}) >= 9
    assert len({mutant.folder for mutant in chosen[:40]}) >= 7


def test_shares_are_whole_and_add_up() -> None:
    assert shares({"a": 60, "b": 30, "c": 10, "d": 0}, 10) == {"a": 6, "b": 3, "c": 1}
    assert sum(shares({"a": 1, "b": 1, "c": 1}, 10).values()) == 10


def test_what_is_likely_comes_first() -> None:
    order = Order(ROOT)
    [mutant, *_] = mutants_of(ROOT, ROOT / "sql" / "addons" / "ordered" / "_hold_keys.sql")
    first, related, *others = order.files(mutant)
    assert all(path.startswith("tests/addons/ordered/") for path in first)
    assert not any(path.startswith("tests/addons/ordered/") for path in related)
    everything = [path for part in (first, related, *others) for path in part]
    assert len(everything) == len(set(everything))
    assert not [path for path in everything if path.startswith(("tests/rules", "tests/install"))]


NAMES = ("sql/log/f.sql:9 if ab", "sql/log/f.sql if ab", "if", "log")
RESULT = Result(*NAMES, "caught", "t", True, 1, "")


def test_results_are_resumed(tmp_path: Path) -> None:
    path = tmp_path / "results"
    Results(path).add(replace(RESULT, outcome="unnoticed"))
    Results(path).add(RESULT)
    with path.open("a") as file:
        file.write(json.dumps({"name": "half a li"})[:-5])
    assert Results(path).found == {RESULT.identity: RESULT}


def test_the_share(tmp_path: Path) -> None:
    results = [
        RESULT,
        replace(RESULT, identity="b", outcome="unnoticed", folder="queue", diff="-  a\n+  b"),
        replace(RESULT, identity="c", outcome="unnoticed"),
        replace(RESULT, identity="d", outcome="invalid"),
    ]
    reasons = tmp_path / "equivalents.txt"
    reasons.write_text("# why\nc: the same\n")
    equal = report.equivalents(reasons)
    assert report.share(results, equal) == "1 of 2, 50 %"
    told = report.told(results, equal)
    assert "| log | 3 | 1 | 1 | 1 | 0 | 100 % |" in told
    assert "| all | 4 | 1 | 1 | 1 | 1 | 50 % |" in told
    assert told.count("not noticed: ") == 1
    assert "+  b" in told
    reasons.write_text("c\n")
    with pytest.raises(SystemExit, match="no reason"):
        report.equivalents(reasons)


def test_equivalents_are_mutants() -> None:
    known = {mutant.identity for mutant in every_mutant()}
    assert not set(report.equivalents()) - known


@pytest.fixture(scope="module")
def tree() -> Iterator[Tree]:
    with Tree(ROOT) as tree:
        yield tree


def mutant_of(path: str, kind: str, text: str) -> Mutant:
    """The mutant of a kind without a text that was there."""
    return next(
        mutant
        for mutant in mutants_of(ROOT, ROOT / path)
        if mutant.kind == kind and mutant.after.count(text) < mutant.before.count(text)
    )


SKIPPED = ("sql/log/commit_offset.sql", "check", "perform pgq._check")


def test_nothing_broken_is_left(tree: Tree) -> None:
    mutant = mutant_of(*SKIPPED)
    script = next((tree.path / "migrations").glob("pgq--*.sql")).name
    with pytest.raises(ZeroDivisionError), tree.broken(mutant) as valid:
        assert valid
        assert (tree.path / mutant.path).read_text() == mutant.after
        assert (ROOT / mutant.path).read_text() == mutant.before
        raise ZeroDivisionError
    assert (tree.path / mutant.path).read_text() == mutant.before
    for kept in (ROOT / "migrations").glob("pgq--*.sql"):
        assert (tree.path / "migrations" / kept.name).read_text() == kept.read_text(), script


def test_what_cannot_be_installed(tree: Tree) -> None:
    mutant = mutant_of(*SKIPPED)
    broken = replace(mutant, after=mutant.after.replace("begin\n", "begin begin\n", 1))
    result = Trials(ROOT, 60).run(tree, broken)
    assert (result.outcome, result.by) == ("invalid", None)


@pytest.mark.slow
def test_a_known_mutant_is_noticed(tree: Tree) -> None:
    result = Trials(ROOT, 120).run(tree, mutant_of(*SKIPPED))
    assert result.outcome == "caught"
    assert result.by is not None
    assert result.by.startswith("tests/log/")


@pytest.mark.slow
def test_a_test_that_always_fails_notices_nothing(tree: Tree) -> None:
    test = tree.path / "tests" / "log" / "test_commit_offset.py"
    test.write_text("def test_all_is_well():\n    assert False\n")
    files = ["tests/log/test_commit_offset.py"]
    trials = Trials(ROOT, 60)
    trials.order.files = lambda mutant: [files]  # type: ignore[method-assign]
    result = trials.run(tree, mutant_of(*SKIPPED))
    assert result.outcome == "caught"
    assert trials.hold_against(tree, [result], 60) == [result]
    result = trials.run(tree, mutant_of(*SKIPPED))
    assert (result.outcome, result.by, result.all_run) == ("unnoticed", None, True)


@pytest.mark.slow
def test_there_is_not_time_for_all(tree: Tree) -> None:
    test = tree.path / "tests" / "log" / "test_commit_offset.py"
    test.write_text("import time\ndef test_it():\n    time.sleep(80)\n")
    outcome = tree.test(["tests/log/test_commit_offset.py"], 5, set())
    assert (outcome.failed, outcome.ended) == (None, False)
