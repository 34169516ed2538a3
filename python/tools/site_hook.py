"""What mkdocs does for the site beside its own work; see ``hooks`` in python/mkdocs.yml.

Texts that stand elsewhere in the repository become pages without being copied, and a link to a file
of the repository leads to its page. The plots of growth are drawn from the figures that are kept.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

__all__ = ["ELSEWHERE", "MERMAID", "PLOTS", "ROOT", "on_files", "on_page_markdown"]

ROOT = Path(__file__).resolve().parents[2]
DOCS = "python/docs/"
MERMAID = ROOT / ".cache" / "mermaid" / "mermaid.min.js"

ELSEWHERE = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/PEERS.md",
    "benchmarks/README.md",
    "python/PUSH.md",
    "python/SPARK.md",
    "python/WORKER.md",
    "sql/ARCHITECTURE.md",
    "sql/README.md",
    "sql/REFERENCE.md",
    "sql/RULES.md",
    "sql/addons/metrics/README.md",
    *(str(page.relative_to(ROOT)) for page in (ROOT / "sql" / "reference").glob("*.md")),
}
"""Pages that are read from where they stand in the repository."""

PLOTS = "<!-- the site shows the plots here -->"
"""The line of benchmarks/README.md that becomes the plots of growth."""
FIGURES = ROOT / "benchmarks" / "growth.json"
PICTURES = ROOT / ".cache" / "plots"

_log = logging.getLogger("mkdocs.hooks.site")

# fenced blocks and code in a line are left alone
_LINK = re.compile(
    r"(?P<code>^ *```.*?^ *```$|`[^`\n]+`)|(?P<text>\[[^\]]*\])\((?P<target>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def _path(page: str) -> str:
    """Where the file of a page is in the repository."""
    return page if page in ELSEWHERE else DOCS + page


def _page(path: str) -> str | None:
    """The page of a file of the repository, if it has one."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return path if path in ELSEWHERE else None


def _plots() -> list[Path]:
    """The plots of growth; they are drawn again when the figures are newer."""
    drawn = sorted(PICTURES.glob("*.svg"))
    if not drawn or drawn[0].stat().st_mtime < FIGURES.stat().st_mtime:
        if str(ROOT) not in sys.path:
            sys.path.append(str(ROOT))
        results = import_module("benchmarks.verdicts").Results.read([FIGURES])
        drawn = sorted(results.draw(PICTURES))
    return drawn


def on_files(files: Files, config: Any) -> Files:
    for path in sorted(ELSEWHERE):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for plot in _plots():
        name = f"benchmarks/plots/{plot.name}"
        files.append(File.generated(config, name, abs_src_path=str(plot)))
    if MERMAID.exists():
        files.append(File.generated(config, "assets/mermaid.min.js", abs_src_path=str(MERMAID)))
    else:
        _log.warning("no %s: python/tools/mermaid.sh fetches it", MERMAID.relative_to(ROOT))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links lead from file to file; here they lead from page to page."""
    here = posixpath.dirname(page.file.src_uri)
    folder = posixpath.dirname(_path(page.file.src_uri))

    def rewritten(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        target, hash_, anchor = match["target"].partition("#")
        if not target or "://" in target or target.startswith(("/", "mailto:")):
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        found = _page(path)
        if found is not None:
            return f"{match['text']}({os.path.relpath(found, here or '.')}{hash_}{anchor})"
        if (ROOT / path).exists():
            return match["text"][1:-1]  # a file that is no page, such as the licence
        return match[0]

    markdown = _LINK.sub(rewritten, markdown)
    if PLOTS in markdown:
        shown = "\n".join(f"![{plot.stem}](plots/{plot.name})" for plot in _plots())
        markdown = markdown.replace(PLOTS, shown)
    return markdown
