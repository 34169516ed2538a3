"""Put the programs of tests/drivers into the pages of python/docs/drivers.

A program stands in a page below a comment with its path, in a block of its language. What is
there is replaced by the file as it is now.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from build import ROOT
from generated import write

__all__ = ["GUIDE", "generate", "shown"]

GUIDE = ROOT / "python" / "docs" / "drivers"

LANGUAGES = {
    ".c": "c",
    ".go": "go",
    ".java": "java",
    ".mjs": "js",
    ".php": "php",
    ".pl": "perl",
    ".psql": "sql",
    ".py": "python",
    ".rb": "ruby",
    ".sql": "sql",
    ".yaml": "yaml",
}

_PROGRAM = re.compile(r"^<!-- (tests/drivers/\S+) -->\n(?:\n```\w+\n.*?^```\n)?", re.M | re.S)


def shown() -> list[str]:
    """The programs that the pages show, by their paths."""
    return [name for page in GUIDE.glob("*.md") for name in _PROGRAM.findall(page.read_text())]


def generate() -> dict[Path, str]:
    """The pages with the programs as they are now."""

    def block(match: re.Match[str]) -> str:
        path = Path(match[1])
        text = (ROOT / path).read_text()
        return f"<!-- {path} -->\n\n```{LANGUAGES[path.suffix]}\n{text}```\n"

    return {page: _PROGRAM.sub(block, page.read_text()) for page in sorted(GUIDE.glob("*.md"))}


if __name__ == "__main__":
    sys.exit(max([write(page, text) for page, text in generate().items()]))
