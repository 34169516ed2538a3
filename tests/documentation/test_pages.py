"""Every page holds the rules of the documentation: what is not run is listed, and links lead on."""

from __future__ import annotations

import codeop
import re
from pathlib import Path

import pytest

from support.house import ROOT, refuse
from support.pages import (
    DOCUMENTS,
    FENCED,
    FILE,
    GUIDES,
    MARKDOWN,
    SEVERAL,
    blocks,
    every_block,
    relative,
)

NOT_RUN = {
    "guides/from-celery.md": ["Celery's code, for comparison"],
    "guides/from-kafka.md": ["Kafka's code, for comparison"],
    "guides/from-pgmq.md": ["needs the extension pgmq"],
    "guides/from-river.md": ["needs Go and pgx"],
    "guides/housekeeping.md": ["needs the extension pg_cron", "a line of a crontab"],
    "guides/http.md": ["the test starts it with these settings"],
    "guides/http-jwt.md": ["the test starts it with these settings"],
    "guides/schedules.md": ["needs the extension pg_cron"],
    SEVERAL: ["the addresses are others each time"],
    "guides/spark-cluster.md": ["needs a cluster"] * 6,
    "guides/spark-pipeline.md": [
        "it is installed already",
        "the address is another one each time",
    ],
    "install.md": [
        "pgq is installed already",
        "it is installed already",
        "needs the files of the server",
        "pgq is installed already",
        "it would remove what other pages use",
    ],
    "sizing.md": ["formulas"],
    "tutorial.md": [
        "it is installed already",
        "runs until Ctrl-C",
        "the address is another one each time",
    ],
}
"""Blocks of the site that are only shown, by page and reason."""

_MADE = re.compile(
    r"\b(?:create_(?:topic|queue|schedule)|subscribe|tasks\.task)\(\s*(?:\w+ ?=>? ?)?['\"]([^'\"]+)"
    r"|\bcreate (?:table|view|role|schema|function) (\w+)",
)


@pytest.mark.parametrize("guide", sorted((GUIDES / "guides").glob("*.md")), ids=relative)
def test_python_can_be_typed(guide: Path) -> None:
    """Into a session of python, where only an empty line ends what is indented."""
    for block in blocks(guide):
        typed: list[str] = []
        if block.language != "python" or FILE.match(block.text):
            continue
        for line in [*block.text.splitlines(), ""]:
            typed.append(line)
            try:
                complete = codeop.compile_command("\n".join(typed), str(block), "single")
            except SyntaxError as error:
                pytest.fail(f"{block}: {error}: {line}")
            if complete is not None:
                typed.clear()
        assert not typed, f"{block} does not end"


def test_no_two_pages_make_the_same() -> None:
    """A name of its own for what a page makes: who tries two pages in one database has both."""
    pages: dict[str, set[str]] = {}
    for document in DOCUMENTS:
        for block in every_block(document):
            for quoted, plain in _MADE.findall(block.text):
                pages.setdefault(quoted or plain, set()).add(relative(document))
    assert len(pages) > 60
    refuse(
        f"{name!r} is made on {', '.join(sorted(where))}: rename it on all pages but one"
        for name, where in sorted(pages.items())
        if len(where) > 1
    )


def test_what_is_not_run_is_known() -> None:
    """Every block of the site is run, or output, or a diagram, or is listed above."""
    found: dict[str, list[str]] = {}
    unknown = []
    for document in DOCUMENTS:
        if GUIDES not in document.parents:
            continue
        for block in every_block(document):
            if block.reason is not None:
                name = str(document.relative_to(GUIDES))
                found.setdefault(name, []).append(block.reason)
            elif block.language not in ("sql", "python", "sh", "mermaid") and not (
                block.language == "text" and block.follows
            ):
                unknown.append(block)
    refuse(unknown)
    assert found == NOT_RUN


@pytest.mark.parametrize("document", MARKDOWN, ids=relative)
def test_the_package_is_not_installed_by_its_name(document: Path) -> None:
    """The pgq on PyPI is another one."""
    blocks = [match["text"] for match in FENCED.finditer(document.read_text())]
    refuse(re.findall(r"pip install [^\n]*?(?<!/)\bpgq\b[^\n]*", "\n".join(blocks)))


@pytest.mark.parametrize("document", MARKDOWN, ids=relative)
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        place = document.parent / name if name else document
        sections = _anchors(place) if place.suffix == ".md" and place.exists() else {anchor}
        if not place.exists() or (anchor and anchor not in sections):
            broken.append(target)
    refuse(broken)


def _anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", MARKDOWN, ids=relative)
def test_goals_exist(document: Path) -> None:
    goals = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown: set[str] = set()
    for match in FENCED.finditer(document.read_text()):
        if match["language"] in ("", "sh", "bash", "shell", "console"):
            for words in re.findall(r"(?:^|\s)make ((?:[a-z-]+ ?)+)", match["text"]):
                shown.update(words.split())
    refuse(sorted(shown - goals))
