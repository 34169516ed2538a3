"""One change of one file, and which of all changes are tried."""

from __future__ import annotations

import difflib
import hashlib
import random
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from mutants.operators import OPERATORS, Edit
from mutants.sources import bodies, code_lines, folder_of, masked, sources, spread

__all__ = ["Mutant", "choose", "mutants_of"]

_QUOTED = re.compile(r"\{(\d+):(\d+)\}")


@dataclass(frozen=True)
class Mutant:
    """A file of sql/ with one edit."""

    path: str
    line: int
    kind: str
    key: str
    """Tells it from the others of its file and kind, and stays the same when lines move."""
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.kind} {self.key}"

    @property
    def identity(self) -> str:
        """What equivalents.txt and results know it by."""
        return f"{self.path} {self.kind} {self.key}"

    @property
    def folder(self) -> str:
        return folder_of(self.path)

    @property
    def diff(self) -> str:
        before = spread(Path(self.path), self.before).splitlines()
        after = self.after.splitlines()
        return "\n".join(difflib.unified_diff(before, after, self.path, self.path, lineterm=""))


def mutants_of(root: Path, path: Path) -> list[Mutant]:
    """All mutants of a file."""
    text = path.read_text()
    wide = spread(path, text)
    solid = [place for place, letter in enumerate(text) if not letter.isspace()]
    name = path.relative_to(root).as_posix()
    seen: defaultdict[str, int] = defaultdict(int)
    found = []
    for begin, end in bodies(path, wide):
        body = wide[begin:end]
        hidden = masked(body)
        for kind, operator in OPERATORS.items():
            for edit in operator(hidden):
                changed = _apply(body, edit)
                if changed == body:
                    continue
                place = begin + edit.begin + _blanks(body, edit)
                line = text.count("\n", 0, solid[len(_squeezed(wide[:place]))]) + 1
                what = f"{kind}\n{_near(body, edit)}\n{_squeezed(_QUOTED.sub('', edit.text))}"
                seen[what] += 1
                key = hashlib.sha256(f"{what}\n{seen[what]}".encode()).hexdigest()[:8]
                after = wide[:begin] + changed + wide[end:]
                found.append(Mutant(name, line, kind.replace(" ", "-"), key, text, after))
    return found


def _blanks(body: str, edit: Edit) -> int:
    dropped = body[edit.begin : edit.end]
    return len(dropped) - len(dropped.lstrip())


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _near(body: str, edit: Edit) -> str:
    """The lines that the edit touches, however far they are in, and where in them it begins."""
    first = body.rfind("\n", 0, edit.begin) + 1
    last = body.find("\n", edit.end)
    lines = _squeezed(body[first : last if last >= 0 else len(body)])
    return f"{lines}\n{len(_squeezed(body[first : edit.begin]))}"


def _apply(body: str, edit: Edit) -> str:
    text = _QUOTED.sub(lambda match: body[int(match[1]) : int(match[2])].strip(), edit.text)
    return body[: edit.begin] + text + body[edit.end :]


def choose(root: Path, count: int, seed: int) -> list[Mutant]:
    """So many mutants, spread over the folders like their code, and over the kinds evenly.

    A run that is cut short has seen a part that is spread in the same way.
    """
    lines: dict[str, int] = defaultdict(int)
    kinds: dict[str, dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for path in sources(root):
        folder = folder_of(path.relative_to(root).as_posix())
        lines[folder] += code_lines(path, path.read_text())
        for mutant in mutants_of(root, path):
            kinds[folder][mutant.kind].append(mutant)
    draw = random.Random(seed)
    ranked = []
    for folder, share in shares(lines, count).items():
        for number, mutant in enumerate(_spread(kinds[folder], share, draw)):
            ranked.append(((number + draw.random()) / share, mutant))
    return [mutant for _, mutant in sorted(ranked, key=lambda entry: entry[0])]


def shares(weights: dict[str, int], count: int) -> dict[str, int]:
    """A whole number for each, in proportion, which together are the count."""
    total = sum(weights.values())
    exact = {name: count * weight / total for name, weight in sorted(weights.items()) if weight}
    whole = {name: int(share) for name, share in exact.items()}
    rest = sorted(exact, key=lambda name: whole[name] - exact[name])
    for name in rest[: count - sum(whole.values())]:
        whole[name] += 1
    return {name: share for name, share in whole.items() if share}


def _spread(kinds: dict[str, list[Mutant]], share: int, draw: random.Random) -> list[Mutant]:
    order = sorted(kinds)
    draw.shuffle(order)
    for kind in order:
        draw.shuffle(kinds[kind])
    found: list[Mutant] = []
    while len(found) < share and any(kinds.values()):
        for kind in order:
            if kinds[kind] and len(found) < share:
                found.append(kinds[kind].pop())
    return found
