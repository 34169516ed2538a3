"""The site is built strictly from the documents, and its readers load nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from site_hook import ELSEWHERE, MERMAID
from support.house import ROOT, refuse
from support.pages import GUIDES as DOCS
from support.pages import NAVIGATION

PAGES = sorted(DOCS.rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site; a link or an anchor that leads nowhere is an error."""
    if not MERMAID.exists():
        pytest.skip("no mermaid: python/tools/mermaid.sh fetches it")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT / "python",
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def _source(page: str) -> str:
    return (ROOT / page if page in ELSEWHERE else DOCS / page).read_text()


def _targets(folder: Path) -> Iterator[tuple[str, str]]:
    for page in sorted(folder.rglob("*.html")):
        for target in re.findall(
            r"<(?:script|img|iframe|source)[^>]* src=\"([^\"]+)\"", page.read_text()
        ) + re.findall(r"<link[^>]* href=\"([^\"]+)\"", page.read_text()):
            yield str(page.relative_to(folder)), target


def test_it_is_built_strictly_and_is_complete(site: Path) -> None:
    wanted = [str(page.relative_to(DOCS)) for page in PAGES]
    wanted += sorted(ELSEWHERE)
    missing = []
    for name in wanted:
        page = Path(name)
        stem = "index" if page.stem == "README" else page.stem
        built = site / page.parent / f"{stem}.html"
        title = re.search(r"^# (.+)$", _source(name), re.MULTILINE)
        assert title
        heading = title[1].replace("'", "&#39;")
        if not built.exists() or not re.search(rf"<h1[^>]*>{heading}", built.read_text()):
            missing.append(name)
    refuse(missing)


def test_every_title_of_the_navigation_is_shown(site: Path) -> None:
    titles = re.findall(r"^ +- ([^:\n]+): (\S+\.md)$", NAVIGATION, re.MULTILINE)
    assert len(titles) > 30
    menu = (site / "settings.html").read_text().partition('class="md-content"')[0]
    shown = {" ".join(text.split()) for text in re.findall(r">([^<>]+)<", menu)}
    refuse(title for title, _ in titles if title not in shown)


def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    targets = list(_targets(site))
    assert len(targets) > 100
    refuse(f"{page}: {target}" for page, target in targets if "//" in target)
    assert (site / "assets" / "mermaid.min.js").stat().st_size > 1_000_000


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("docker", "use-in-your-project.html"),
        ("timeout", "python/WORKER.html"),
        ("delete a topic", "guides/consuming.html"),
    ],
)
def test_the_search_finds_it_in_a_heading(site: Path, words: str, page: str) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = [part for part in index["docs"] if words in part["title"].lower()]
    assert page in {part["location"].partition("#")[0] for part in found}
    assert all(part["text"] for part in found)


def test_plots_are_drawn_from_the_figures(site: Path) -> None:
    results = json.loads((ROOT / "benchmarks" / "growth.json").read_text())
    page = (site / "benchmarks" / "index.html").read_text()
    shown = set(re.findall(r'src="plots/growth-([\w-]+)\.svg"', page))
    assert shown == {part["picture"] for part in results["parts"]}
    plots = {name: (site / f"benchmarks/plots/growth-{name}.svg").read_text() for name in shown}
    refuse(
        part["title"] for part in results["parts"] if part["title"] not in plots[part["picture"]]
    )


def _diagrams() -> list[str]:
    return [
        text
        for page in PAGES
        for text in re.findall(r"^```mermaid\n(.*?)^```$", page.read_text(), re.M | re.S)
    ]


@pytest.mark.slow
def test_diagrams_can_be_drawn(tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium: on Debian, apt-get install chromium")
    if not MERMAID.exists():
        pytest.skip("no mermaid: python/tools/mermaid.sh fetches it")
    diagrams = _diagrams()
    assert len(diagrams) >= 8
    page = tmp_path / "diagrams.html"
    page.write_text(
        f"<!doctype html><body><script src='{MERMAID.as_uri()}'></script><script>"
        f"const diagrams = {json.dumps(diagrams)};"
        "(async () => { let answer = '';"
        "for (const [n, text] of diagrams.entries())"
        "  try { await mermaid.render('d' + n, text); answer += 'drawn ' }"
        "  catch (error) { answer += `[${text}: ${error}] ` }"
        "document.body.innerText = 'ANSWER ' + answer + 'END'; })()</script>"
    )
    done = subprocess.run(
        [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000",
            f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    answer = re.search(r"ANSWER (.*?) ?END", done.stdout, re.DOTALL)
    assert answer, done.stdout[-2000:] + done.stderr[-2000:]
    assert answer[1].split() == ["drawn"] * len(diagrams), answer[1]


def test_every_page_is_in_the_navigation() -> None:
    shown = re.findall(r"[\w/-]+\.md", NAVIGATION)
    here = {str(page.relative_to(DOCS)) for page in PAGES}
    assert len(shown) == len(set(shown))
    assert set(shown) == here | set(ELSEWHERE)


def test_every_function_is_explained_somewhere(connection: psycopg.Connection[object]) -> None:
    """Not only in the reference, which is generated: in a text that says what it is for."""
    texts = "\n".join(
        (ROOT / path).read_text()
        for path in (*ELSEWHERE, *(str(page.relative_to(ROOT)) for page in PAGES))
        if not path.startswith(("sql/REFERENCE.md", "sql/reference/", "CHANGELOG.md"))
    )
    names = connection.execute(
        "select proname from pg_proc where pronamespace = 'pgq'::regnamespace"
        " and proname !~ '^_' and prorettype <> 'trigger'::regtype"
    ).fetchall()
    assert len(names) > 50
    refuse(name for (name,) in names if not re.search(rf"\b{name}\b", texts))


def test_every_error_code_has_its_place(connection: psycopg.Connection[object]) -> None:
    """Every code that a function's comment names is a heading of the page about errors."""
    comments = connection.execute(
        "select obj_description(oid, 'pg_proc') from pg_proc"
        " where pronamespace = 'pgq'::regnamespace and proname !~ '^_'"
    ).fetchall()
    codes = {
        code
        for (comment,) in comments
        for code in re.findall(
            r"\b(?:MQ\d{3}|\d[0-9A-Z]{4})\b", str(comment).partition("Errors:")[2]
        )
    }
    assert len(codes) > 15
    headings = "\n".join(re.findall(r"^### .*", (DOCS / "errors.md").read_text(), re.MULTILINE))
    refuse(sorted(code for code in codes if code not in headings))


def test_every_setting_has_its_place(connection: psycopg.Connection[object]) -> None:
    settings = set(re.findall(r"`(\w+)`", (DOCS / "settings.md").read_text()))
    rows = connection.execute(
        "select proname, unnest(proargnames[:pronargs]) from pg_proc"
        " where pronamespace = 'pgq'::regnamespace and proname ~ '^(create_(?!roles)|subscribe$)'"
    ).fetchall()
    assert len(rows) > 50
    names = {"topic", "queue", "consumer_group", "schedule", "subscription"}
    refuse(
        f"{function}: {name}"
        for function, name in rows
        if name not in settings and name not in names
    )
