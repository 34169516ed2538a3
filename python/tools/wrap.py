"""Wrap the statements of SQL sources at 100 columns, changing nothing but white space.

Whatever fits on one line is put there: a bracket, a case, a clause, a statement. What does not
keeps a line for each clause, and lists are filled like a paragraph. A list of more than six names
stays one a line where it is read beside another: `select … into` and `insert into … (…)`. Comments
and blank lines stay where they are, and nothing is joined across them. A body with a literal of
several lines is left as it is.
"""

from __future__ import annotations

import re
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from build import ROOT

__all__ = ["wrapped"]

WIDTH = 100
SIDE_BY_SIDE = 6

_BODY = re.compile(r"(?<=\nas \$\$\n).*?(?=\n\$\$;\n)", re.DOTALL)
_TYPES = re.compile(r"^comment on function pgq\.\w+\(\n[^()]*\n\) is$", re.MULTILINE)
_HEADER = re.compile(
    r"^(create function pgq\.\w+\()([^()]*(?:\([^()]*\)[^()]*)*)\)\n(returns .*?)\n"
    r"(language \w+[^\n]*\n(?:[^\n]+\n)*?)(?=as \$\$\n)",
    re.MULTILINE | re.DOTALL,
)
_WORD = re.compile(r"--[^\n]*|'(?:[^']|'')*'|[\w.]+|\S", re.DOTALL)
_CONTROL = re.compile(
    r"(if|elsif|else|loop|begin|declare|exception|end|while|<<|#)\b|when .* then$"
)
_CLOSES = re.compile(r"[)\]]|end\b|then\b|loop\b")
_ROW = re.compile(r"\(.*\),?")
_BLOCK = re.compile(r"\b(then|loop|begin|else|declare|exception)$")
_PAIRED = re.compile(r"(select|into|insert into|values|returning)\b|.*\brow\($")


@dataclass
class _Node:
    """A line, and the lines below it that are further in."""

    text: str
    below: list[_Node] = field(default_factory=list)

    @property
    def fixed(self) -> bool:
        return not self.text or self.text.startswith("--") or " -- " in self.text


def wrapped(source: str, *, part: bool = False) -> str:
    """The source with its bodies wrapped, equal but for white space; a part is all body."""
    result = _wrap(source) if part else _BODY.sub(lambda found: _wrap(found[0]), source)
    result = _HEADER.sub(_header, result)
    result = _TYPES.sub(lambda found: _wrap(found[0]), result)
    if _WORD.findall(result) != _WORD.findall(source):
        raise ValueError("wrapping has changed more than white space")
    return result


def _wrap(text: str) -> str:
    lines = text.split("\n")
    if any(line.count("'") % 2 for line in lines if not line.lstrip().startswith("--")):
        return text  # a literal goes over several lines
    return "\n".join(_render(_arrange(_tree(lines)[0], 0), 0))


def _header(found: re.Match[str]) -> str:
    """What a function is stands on one line; the arguments of a private one are filled."""
    begin, arguments, returns, attributes = found.groups()
    if "--" in found[0]:
        return found[0]
    if begin.startswith("create function pgq._"):
        arguments = " ".join(arguments.split())
        if len(begin) + len(arguments) >= WIDTH:
            # an argument stays on one line: the spaces within are hidden from textwrap
            inside = textwrap.wrap(re.sub(r"(?<!,) ", "\0", arguments), WIDTH - 4)
            arguments = "".join(f"\n    {line}" for line in inside).replace("\0", " ") + "\n"
    lines = attributes.splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith(("security", "set "))), None)
    attributes = "\n".join(
        [" ".join(lines[:first]), *lines[len(lines) if first is None else first :]]
    )
    return f"{begin}{arguments})\n{returns}\n{attributes}\n"


def _tree(lines: list[str], start: int = 0, indent: int = 0) -> tuple[list[_Node], int]:
    """The lines from `start` on that are at least so far in, and where they end."""
    nodes: list[_Node] = []
    while start < len(lines):
        line = lines[start]
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            following = next((text for text in lines[start:] if text.strip()), "")
            depth = len(following) - len(following.lstrip())
        if depth < indent:
            break
        if depth > indent and line.strip() and nodes:
            deeper, start = _tree(lines, start, depth)
            nodes[-1].below += deeper
            continue
        nodes.append(_Node(line.strip()))
        start += 1
    return nodes, start


def _render(nodes: list[_Node], indent: int) -> list[str]:
    lines: list[str] = []
    for node in nodes:
        lines.append(" " * indent + node.text if node.text else "")
        lines += _render(node.below, indent + 4)
    return lines


def _arrange(nodes: list[_Node], indent: int, paired: bool = False) -> list[_Node]:
    """The same, each node on one line where it fits, and then all of a statement."""
    pairs = any(node.text.startswith(("into", "insert into")) for node in nodes)
    for node in nodes:
        found = _PAIRED.match(node.text)
        node.below = _arrange(node.below, indent + 4, bool(found and (pairs or not found[1])))
    return _statements(_fill(_close(nodes, indent), indent, paired), indent)


def _close(nodes: list[_Node], indent: int) -> list[_Node]:
    """Brings each line, what is below it, and what closes it together."""
    result: list[_Node] = []
    for node in nodes:
        before = result[-1] if result else None
        closes = (
            _CLOSES.match(node.text)
            and before is not None
            and not before.fixed
            and (before.below or node.text.startswith(("then", "loop")))
        )
        if closes and before is not None and not node.text.startswith("end if"):
            head = _joined([before, _Node(node.text)], indent)
            if head is not None and not (node.text == "loop" and not _opens(before.text)):
                head.below = node.below
                result[-1] = head
                continue
        result.append(node)
    return [_joined([node], indent) or node for node in result]


def _opens(text: str) -> bool:
    return text.startswith(("for ", "foreach ", "while "))


def _fill(nodes: list[_Node], indent: int, paired: bool) -> list[_Node]:
    """Fills lists like a paragraph."""
    if paired and sum(node.text.endswith(",") for node in nodes) >= SIDE_BY_SIDE:
        return nodes
    result: list[_Node] = []
    for node in nodes:
        before = result[-1] if result else None
        if (
            before is not None
            and before.text.endswith(",")
            and not before.text.startswith((")", "]", "end"))
            and not before.below
            and not node.below
            and not _ROW.fullmatch(node.text)
            and (node.text.endswith(",") or node is nodes[-1])
        ):
            both = _joined([before, node], indent)
            if both is not None:
                result[-1] = both
                continue
        result.append(node)
    return result


def _statements(nodes: list[_Node], indent: int) -> list[_Node]:
    """Puts all clauses of a statement on one line where they fit."""
    result: list[_Node] = []
    clauses: list[_Node] = []
    for node in nodes:
        if not clauses and (node.fixed or _CONTROL.match(node.text)):
            result.append(node)
            continue
        clauses.append(node)
        if node.text.endswith(";") or (node.below and node.below[-1].text.endswith(";")):
            both = _joined(clauses, indent)
            result += [both] if both is not None else clauses
            clauses = []
    return result + clauses


def _joined(nodes: list[_Node], indent: int) -> _Node | None:
    """All of it on one line, if that fits and is no more than one statement."""
    texts: list[str] = []

    def collect(node: _Node) -> bool:
        texts.append(node.text)
        ends = [collect(child) for child in node.below]
        block = node.below and _BLOCK.search(node.text) and texts[-1].endswith(";")
        return not node.fixed and not block and all(ends)

    fits = [collect(node) for node in nodes]
    if not all(fits):
        return None
    text = texts[0]
    for further in texts[1:]:
        text += "" if text.endswith(("(", "[")) or further.startswith((")", "]")) else " "
        text += further
    plain = re.sub(r"'(?:[^']|'')*'", "''", text)
    if indent + len(text) > WIDTH or ";" in plain[:-1] or " -- " in plain:
        return None
    if len(texts) > 1 and texts[0].endswith(("(", "[")) and not texts[-1].startswith((")", "]")):
        return None
    return _Node(text)


def main() -> int:
    """Wrap the named sources, or all in sql/; with --check only say which are not wrapped."""
    check = "--check" in sys.argv
    named = [Path(name) for name in sys.argv[1:] if name != "--check"]
    found = 0
    for path in named or sorted((ROOT / "sql").rglob("*.*sql")):
        source = path.read_text()
        result = wrapped(source, part=path.suffix == ".plpgsql")
        if result != source:
            found += 1
            if check:
                print(f"{path.relative_to(ROOT)} is not wrapped: run make wrap")
            else:
                path.write_text(result)
    return int(check and found > 0)


if __name__ == "__main__":
    sys.exit(main())
