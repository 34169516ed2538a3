"""The texts that are broken: bodies of functions and of views, without comments and literals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["bodies", "code_lines", "folder_of", "masked", "sources", "spread"]

# `exception 'must not be null'` is a text, `-- for the first 16 leaves: x` belongs to the tools
_HIDDEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_FUNCTION = re.compile(r"\nas \$\$\n(.*?)\n\$\$;", re.DOTALL)
_VIEW = re.compile(r"^create view .*?\bas$(.*?;)\n", re.DOTALL | re.MULTILINE)


def sources(root: Path) -> list[Path]:
    """The files that may have something to break."""
    found = [*(root / "sql").rglob("*.sql"), *(root / "sql").rglob("*.plpgsql")]
    return sorted(path for path in found if path.parent.name != "sql")


def masked(text: str) -> str:
    """The text with blanks for all that is comment or literal, so that places stay the same."""
    return _HIDDEN.sub(lambda match: re.sub(r"[^\n]", "\x01", match[0]), text)


_CLAUSE = re.compile(
    r" (?:(and|or)|where|order by|limit|for (?:no key )?update|for (?:key )?share) "
)


def spread(path: Path, text: str) -> str:
    """The text with a line for each clause and condition of its bodies, as operators expect."""
    for begin, end in reversed([*bodies(path, text)]):
        lines = [part for line in text[begin:end].split("\n") for part in _spread(line)]
        text = text[:begin] + "\n".join(lines) + text[end:]
    return text


def _spread(line: str) -> Iterator[str]:
    hidden = masked(line)
    indent = len(line) - len(line.lstrip())
    for match in _CLAUSE.finditer(hidden, indent):
        first = hidden[: match.start()]
        if first.count("(") == first.count(")") and not re.search(r"between \S+$", first):
            yield line[: match.start()]
            deeper = 4 if match[1] and not re.match(r" *(and|or) ", first) else 0
            yield from _spread(" " * (indent + deeper) + line[match.start() + 1 :])
            return
    yield line


def bodies(path: Path, text: str) -> Iterator[tuple[int, int]]:
    """Where the bodies begin and end."""
    if path.suffix == ".plpgsql":  # a part that is pasted into bodies
        yield 0, len(text)
        return
    for match in _FUNCTION.finditer(text):
        yield match.span(1)
    hidden = masked(text)
    for match in _VIEW.finditer(hidden):
        yield match.span(1)


def code_lines(path: Path, text: str) -> int:
    """Lines of bodies that hold more than a comment."""
    hidden = masked(text)
    return sum(
        1
        for begin, end in bodies(path, text)
        for line in hidden[begin:end].splitlines()
        if line.strip(" \x01")
    )


def folder_of(path: str) -> str:
    """The folder of a source below sql/, or of a test below tests/, which mirrors it."""
    _, first, second, *_ = path.split("/")
    return f"{first}/{second}" if first == "addons" else first
