"""The pages of the documentation, and the fenced blocks in them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.house import ROOT

GUIDES = ROOT / "python" / "docs"
NAVIGATION = (ROOT / "python" / "mkdocs.yml").read_text().split("\nnav:\n")[1]

TESTED_ELSEWHERE = {
    "command-line.md",
    *(str(page.relative_to(GUIDES)) for page in (GUIDES / "drivers").glob("*.md")),
    "replicas.md",
    "ui.md",
    "upgrade.md",
    "use-in-your-project.md",
}
"""Pages of the site whose examples have tests of their own, beside what they describe."""

SEVERAL = "guides/several-databases.md"
"""The page whose SQL goes to two databases."""

DOCUMENTS = sorted(
    [
        *(
            path
            for path in GUIDES.rglob("*.md")
            if str(path.relative_to(GUIDES)) not in TESTED_ELSEWHERE
        ),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "python" / "PUSH.md",
        ROOT / "python" / "SPARK.md",
        ROOT / "python" / "WORKER.md",
        ROOT / "benchmarks" / "PEERS.md",
        ROOT / "benchmarks" / "README.md",
        ROOT / "sql" / "README.md",
        ROOT / "sql" / "addons" / "metrics" / "README.md",
    ]
)
MARKDOWN = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "node_modules" for part in path.parts)
)

FENCED = re.compile(
    r"(?P<skipped> *<!-- not run: [^\n]+ -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)

FILE = re.compile(r"# ([\w/]+\.py)\n")
"""The first line of a block that is a file, beside which the shell runs."""


@dataclass(frozen=True)
class Block:
    """One fenced block of a document."""

    path: Path
    line: int
    language: str
    text: str
    reason: str | None = None
    """Why it is not run."""
    follows: bool = False
    """Whether nothing stands between it and the block before."""

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def every_block(path: Path) -> Iterator[Block]:
    text = path.read_text()
    end = 0
    for match in FENCED.finditer(text):
        skipped = re.search(r"not run: ([^\n]+) -->", match["skipped"] or "")
        yield Block(
            path,
            text.count("\n", 0, match.start("language")) + 1,
            match["language"],
            textwrap.dedent(match["text"]),
            skipped[1] if skipped else None,
            follows=end > 0 and not text[end : match.start()].strip(),
        )
        end = match.end()


def blocks(path: Path) -> Iterator[Block]:
    """The blocks that are to be run."""
    return (block for block in every_block(path) if block.reason is None)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))
