"""Write out what the sources say once: statements that name their leaf, and shared parts.

``-- paste: parts/claim.plpgsql`` stands for that file, beside the source; ``{function}`` in
it is the name of the function that it is pasted into, and after ``with least = 1, most = 9``
``{least}`` is 1. A call would cost such a function more than the part itself.

A plan that reads through the partitioned parent locks every leaf, so what runs often names the one
leaf it needs. The sources have such a statement once::

    -- for the first 48 leaves: home.segment
    select m.log_offset
    from pgq.message_{leaf} as m
    where m.partition_id = {home.partition_id}
    into newest_offset;
    -- end of the leaf

``{leaf}`` stands for the number, every other pair of braces holds an expression of the function,
and ``into`` begins the last clause where there is one. So many leaves get a copy each, which a
session plans once; a tree of conditions finds the copy. The leaves after them share an ``execute``,
which is planned at every call: some 40 microseconds more.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

__all__ = ["pasted", "write_out"]

_MARKED = re.compile(
    r"^(?P<indent> *)-- for the first (?P<count>\d+) leaves: (?P<leaf>\S+)\n"
    r"(?P<body>.*?)^ *-- end of the leaf\n",
    re.MULTILINE | re.DOTALL,
)
_MARKED_BADLY = re.compile(r"-- for the first \d+ leaves:|-- end of the leaf")
_BRACES = re.compile(r"\{([^{}]+)\}")
_INTO = re.compile(r"\ninto (.*)\Z", re.DOTALL)


_PASTE = re.compile(
    r"^(?P<indent> *)-- paste: (?P<part>\S+)(?: with (?P<values>.+))?\n", re.MULTILINE
)
_VALUE = re.compile(r"(\w+) = (\S+?)(?:, |$)")


def pasted(path: Path) -> str:
    """The text of a source with its parts."""

    def part(found: re.Match[str]) -> str:
        text = (path.parent / found["part"]).read_text().replace("{function}", path.stem)
        for name, value in _VALUE.findall(found["values"] or ""):
            text = text.replace(f"{{{name}}}", value)
        return textwrap.indent(text, found["indent"])

    text = path.read_text()
    while _PASTE.search(text):  # a part may have parts
        text = _PASTE.sub(part, text)
    return text


def write_out(path: Path) -> str:
    """The text of a source with its parts and each marked statement written out."""
    result = _MARKED.sub(_copies, pasted(path))
    if _MARKED_BADLY.search(result):
        raise ValueError("a statement marked for the leaf has no end, or no begin")
    return result


def _copies(match: re.Match[str]) -> str:
    body = textwrap.dedent(match["body"]).strip()
    statements = [part.strip() for part in body.split(";\n")]
    statements[-1] = statements[-1].removesuffix(";")
    if not body.endswith(";") or not all("{leaf}" in statement for statement in statements):
        raise ValueError(f"not statements that name their leaf: {body[:60]}")
    lines = _by_leaf(match["leaf"], statements, int(match["count"]))
    return textwrap.indent("\n".join(lines) + "\n", match["indent"])


def _by_leaf(leaf: str, body: list[str], count: int) -> list[str]:
    # Each condition takes time. The lowest free leaf is taken first, so the low ones are used most
    # and have the fewest: one for leaf 0, two for leaf 1, three or four for 2 and 3, ...
    lines: list[str] = []
    low = high = 0
    while low < count:
        high = min(high, count - 1)
        lines += [
            f"{'elsif' if lines else 'if'} {leaf} {'=' if low == high else '<='} {high} then",
            *_deeper(_tree(leaf, body, low, high)),
        ]
        low, high = high + 1, 2 * high + 1
    dynamic = [line for part in body for line in _dynamic(leaf, part)]
    return [*lines, "else", *_deeper(dynamic), "end if;"]


def _tree(leaf: str, body: list[str], first: int, last: int) -> list[str]:
    if first == last:
        return [line for part in body for line in _static(part, first)]
    middle = (first + last) // 2
    return [
        f"if {leaf} <= {middle} then",
        *_deeper(_tree(leaf, body, first, middle)),
        "else",
        *_deeper(_tree(leaf, body, middle + 1, last)),
        "end if;",
    ]


def _deeper(lines: list[str]) -> list[str]:
    return [f"    {line}" if line else line for line in lines]


def _static(body: str, number: int) -> list[str]:
    text = _BRACES.sub(lambda found: str(number) if found[1] == "leaf" else found[1], body) + ";"
    if number == 0 or "--" in text:
        return text.splitlines()
    # The first copy is there to be read; the others are as short as they can be.
    whole = re.sub(r"'[^']*'", lambda found: found[0].replace(" ", "\0"), " ".join(text.split()))
    whole = re.sub(r"\b(then|else) ", "\\1\0", whole.replace("( ", "(").replace(" )", ")"))
    return [line.replace("\0", " ") for line in textwrap.wrap(whole, 80, break_on_hyphens=False)]


def _dynamic(leaf: str, body: str) -> list[str]:
    values: list[str] = []

    def place(found: re.Match[str]) -> str:
        if found[1] == "leaf":
            return "%1$s"
        if found[1] not in values:
            values.append(found[1])
        return f"${values.index(found[1]) + 1}"

    target = _INTO.search(body)
    text = body[: target.start()] if target else body
    text = text.replace("%", "%%")
    opening = "execute"
    if text.startswith("return query\n"):
        opening, text = "return query execute", text.removeprefix("return query\n")
    text = _BRACES.sub(place, text)
    lines = [f"{opening} format($leaf$", *_deeper(text.splitlines()), f"$leaf$, {leaf})"]
    if target:
        lines.append(f"into {' '.join(target[1].split())}")
    if values:
        lines.append(f"using {', '.join(values)}")
    lines[-1] += ";"
    return lines
