"""How far the exhaustive form has come: a file that a later run goes on from.

Its first line says what was explored and what was found out before; each further line is a trial
that broke no promise. Several processes may add to one file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from explorer.every_pair import NEARNESS
from explorer.footprints import Footprints
from support.house import ROOT

__all__ = ["DEFAULT", "Progress", "product", "share"]

DEFAULT = ROOT / ".cache" / "explorer" / "all-pairs"


def product() -> str:
    """A digest of all that is explored."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "sql").rglob("*.sql")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Progress:
    """The trials that are done; ``footprints`` is None when there is nothing to go on from."""

    def __init__(self, path: Path, explored: dict[str, object]) -> None:
        self.path = path
        self.explored = explored
        self.done: set[str] = set()
        self.footprints: Footprints | None = None
        self.read()

    def read(self) -> None:
        """Take over what is in the file, if it is about the same."""
        if not self.path.exists():
            return
        first, *names = self.path.read_text().splitlines() or [""]
        header = json.loads(first or "{}")
        if header.get("explored") == self.explored:
            self.footprints = header["footprints"]
            self.done = set(names)

    def begin(self, footprints: Footprints) -> None:
        """Begin a file anew, unless another process has just done so."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        header = json.dumps({"explored": self.explored, "footprints": footprints})
        own = self.path.with_suffix(f".{os.getpid()}")
        own.write_text(f"{header}\n")
        self.read()
        if self.footprints is None:
            own.replace(self.path)
            self.footprints = footprints
        else:
            own.unlink()

    def note(self, name: str) -> None:
        """A trial is done."""
        self.done.add(name)
        with self.path.open("a") as file:
            file.write(f"{name}\n")


def share(names: Sequence[str], done: Collection[str], mixes: int) -> list[str]:
    """How much of all trials is done, in words: all together, then by how near the calls are."""
    lines = [_share(names, done, mixes, "all")]
    for near in NEARNESS:
        some = [name for name in names if name.endswith(f"/{near}")]
        lines.append(_share(some, done, mixes, near))
    return lines


def _share(names: Sequence[str], done: Collection[str], mixes: int, what: str) -> str:
    pairs = Counter(_pair(name) for name in names)
    left = Counter(_pair(name) for name in names if name not in done)
    met = len({_pair(name) for name in names if name in done})
    trials = sum(name in done for name in names)
    return (
        f"{what}: {len(pairs) - len(left)} of {len(pairs)} pairs in all orders, {met} in some;"
        f" {trials} of {len(names)} orders of pairs,"
        f" {trials * mixes} of {len(names) * mixes} with their levels"
        f" ({100 * trials / max(len(names), 1):.1f} %)"
    )


def _pair(name: str) -> tuple[str, ...]:
    """The two functions, in the same order for both ways."""
    return tuple(sorted(name.partition("/")[0].split("+")))
