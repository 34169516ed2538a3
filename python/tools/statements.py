"""An install script as statements, and what each of them is about."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Statement", "statements"]

_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"[^"]*"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|;""", re.DOTALL
)
_LEADING = re.compile(r"\A(?:\s+|--[^\n]*\n|\\[^\n]*\n)+")

# how each kind begins, and what the statement is about
_KINDS = {
    "function": re.compile(r"create function pgq\.(\w+)"),
    "view": re.compile(r"create view pgq\.(\w+)"),
    "trigger": re.compile(r"create trigger (\w+\s.*?\son pgq\.\w+)", re.DOTALL),
    "comment": re.compile(r"comment on (.*?) is\s", re.DOTALL),
    "privilege": re.compile(r"(?:grant|revoke) ()"),
    "block": re.compile(r"do \$(\w+)\$"),
}


@dataclass(frozen=True)
class Statement:
    """One statement without what stands before it."""

    text: str
    kind: str
    """function, view, trigger, comment, privilege, block, or other."""
    name: str
    """Of a comment, what it is on; of a trigger, what it is called and when it fires."""

    def mentions(self, name: str) -> bool:
        """Whether a function or view of pgq is named in it."""
        return re.search(rf"\bpgq\.{name}\b", self.text) is not None


def statements(script: str) -> list[Statement]:
    """The statements of a script, in order; psql's own lines are left out."""
    found = []
    start = 0
    for token in _TOKEN.finditer(script):
        if token[0] == ";":
            found.append(_statement(script[start : token.end()]))
            start = token.end()
    return found


def _statement(text: str) -> Statement:
    text = _LEADING.sub("", text, count=1)
    for kind, pattern in _KINDS.items():
        match = pattern.match(text)
        if match:
            return Statement(text, kind, " ".join(match[1].split()))
    return Statement(text, "other", "")
