"""A server's private copy of an installation, to which extensions can be added."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pgq.embedded._account import Account
from pgq.embedded._errors import EmbeddedServerError

__all__ = ["Layout", "build_runtime"]

_COPIED_PROGRAMS = ("postgres", "initdb", "pg_ctl")


@dataclass(frozen=True)
class Layout:
    """Where an installation keeps its parts."""

    bin: Path
    share: Path
    library: Path

    @classmethod
    def of(cls, folder: Path) -> Layout:
        """The layout of the installation that a folder of programs belongs to."""
        # a system installation may spread over /usr/lib and /usr/share: it knows best itself
        config = folder / "pg_config"
        if config.exists():
            answer = subprocess.run(
                [config, "--sharedir", "--pkglibdir"], capture_output=True, text=True, check=False
            )
            paths = [Path(line) for line in answer.stdout.splitlines()]
            if len(paths) == 2 and (paths[0] / "postgres.bki").exists():
                return cls(folder, *paths)
        root = folder.parent
        share = next(root.glob("share/**/postgres.bki"), None)
        library = next(root.glob("lib/**/plpgsql.*"), None)
        if share is None or library is None:
            raise EmbeddedServerError(f"{folder} does not belong to a complete PostgreSQL")
        return cls(folder, share.parent, library.parent)

    def root(self) -> Path:
        """The folder that the parts' relative positions are taken from.

        A repaired wheel keeps shared libraries in ``<package>.libs`` beside the package, and its
        programs look for them relative to themselves: then that folder's parent is the root.
        """
        common = Path(os.path.commonpath([self.bin, self.share, self.library]))
        for folder in (common, *list(common.parents)[:2]):
            if folder != Path("/") and any(folder.glob("*.libs")):
                return folder
        return common


def build_runtime(source: Path, destination: Path, account: Account) -> Layout:
    """Lay out copies and links of an installation below ``destination``."""
    layout = Layout.of(source.resolve())
    root = layout.root()

    def place(original: Path) -> Path:
        return destination / original.relative_to(root)

    copy = not account.can_reach(layout.bin)
    private = Layout(place(layout.bin), place(layout.share), place(layout.library))

    package = layout.bin.relative_to(root).parts[0]
    for libraries in root.glob("*.libs"):
        if libraries.name == f"{package}.libs":
            _link(libraries, place(libraries), copy)
    # a package's own lib folder holds shared libraries beside the server's modules
    beside = layout.bin.parent / "lib"
    if beside.is_dir() and layout.library.parent == beside:
        _link_entries(beside, place(beside), copy, leave_out=[layout.library.name, "pkgconfig"])
    _link_entries(layout.library, private.library, copy, leave_out=["pgxs", "pkgconfig"])

    _link_entries(layout.share, private.share, copy, leave_out=["extension", "man", "doc"])
    _link_entries(layout.share / "extension", private.share / "extension", copy, leave_out=[])
    _link_entries(layout.bin, private.bin, copy, leave_out=_COPIED_PROGRAMS)
    for program in _COPIED_PROGRAMS:
        if (layout.bin / program).exists():
            shutil.copy2(layout.bin / program, private.bin / program)
    return private


def _link_entries(source: Path, into: Path, copy: bool, leave_out: Iterable[str]) -> None:
    into.mkdir(parents=True, exist_ok=True)
    unwanted = set(leave_out)
    for entry in source.iterdir():
        if entry.name not in unwanted and entry.suffix != ".a":
            _link(entry, into / entry.name, copy)


def _link(source: Path, at: Path, copy: bool) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    if not copy:
        at.symlink_to(source)
    elif source.is_dir():
        shutil.copytree(source, at, symlinks=True)
    else:
        shutil.copy2(source, at, follow_symlinks=False)
