"""The share that was noticed, by kind and by folder, and what was not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from mutants.trial import Result

__all__ = ["EQUIVALENTS", "equivalents", "share", "table", "told"]

EQUIVALENTS = Path(__file__).with_name("equivalents.txt")


def equivalents(path: Path = EQUIVALENTS) -> dict[str, str]:
    """Mutants that change nothing that can be seen, with the reason for each."""
    found = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            identity, colon, reason = line.partition(": ")
            if not colon or not reason:
                raise SystemExit(f"{path.name}: no reason given: {line}")
            found[identity] = reason
    return found


def counted(results: Iterable[Result], equal: dict[str, str]) -> list[Result]:
    """Those that could have been noticed."""
    return [
        result
        for result in results
        if result.outcome == "caught"
        or (result.outcome == "unnoticed" and result.identity not in equal)
    ]


def share(results: Iterable[Result], equal: dict[str, str]) -> str:
    """How many of them were, as text."""
    some = counted(results, equal)
    caught = sum(result.outcome == "caught" for result in some)
    return f"{caught} of {len(some)}, {100 * caught / len(some):.0f} %" if some else "none"


def table(
    heading: str, results: list[Result], equal: dict[str, str], by: Callable[[Result], str]
) -> str:
    """A table in Markdown."""
    lines = [
        f"| {heading} | tried | cannot be installed | equivalent | noticed | not noticed | share |",
        "|---|---|---|---|---|---|---|",
    ]
    names = sorted({by(result) for result in results})
    for name in [*names, "all"]:
        some = [result for result in results if name in (by(result), "all")]
        real = counted(some, equal)
        caught = sum(result.outcome == "caught" for result in real)
        invalid = sum(result.outcome == "invalid" for result in some)
        same = len(some) - len(real) - invalid
        part = f"{100 * caught / len(real):.0f} %" if real else ""
        cells = (name, len(some), invalid, same, caught, len(real) - caught, part)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def told(results: list[Result], equal: dict[str, str]) -> str:
    """The report."""
    parts = [
        table("kind", results, equal, lambda result: result.kind),
        table("folder", results, equal, lambda result: result.folder),
    ]
    for result in counted(results, equal):
        if result.outcome == "unnoticed":
            end = "" if result.all_run else " in the time that there was"
            parts.append(f"not noticed{end}: {result.name}\n{result.diff}")
    parts.append(f"noticed: {share(results, equal)}")
    return "\n\n".join(parts)
