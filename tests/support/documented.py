"""Which codes the comment of a function says that it raises."""

from __future__ import annotations

import re

__all__ = ["CODE", "errors_of", "others_of"]

CODE = r"(?:MQ\d{3}|[0-9][0-9A-Z]{4})"

_CODES = rf"{CODE}(?:(?:, | or ){CODE})*"
_OTHERS = re.compile(r", and those of ([a-z_]+(?: and [a-z_]+)*)$")


def errors_of(comment: str) -> dict[str, str]:
    """What the comment says of each code, in its order; without those of other functions."""
    text = _OTHERS.sub("", _listed(comment))
    entries = re.findall(rf"({_CODES}) (.+?)(?=, {CODE}\b|$)", text)
    assert ", ".join(" ".join(entry) for entry in entries) == text
    return {code: what for codes, what in entries for code in re.findall(CODE, codes)}


def others_of(comment: str) -> list[str]:
    """The functions whose codes it may raise as well."""
    found = _OTHERS.search(_listed(comment))
    return found[1].split(" and ") if found else []


def _listed(comment: str) -> str:
    return " ".join(comment.partition("\nErrors: ")[2].split()).removesuffix(".")
