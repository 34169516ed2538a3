"""Brings the JavaScript of others into the page: ``vendor.py``, or ``vendor.py --check``.

``vendored.json`` says which packages of npm, of which version, and which of their files are here.
A package is taken only if it has the checksum that stands there. ``--check`` asks nobody, and says
whether the files are still those that were taken.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "LIST", "differences"]

FOLDER = Path(__file__).resolve().parents[1] / "src" / "pgq" / "ui" / "static" / "vendor"
LIST = FOLDER / "vendored.json"


def _packages() -> list[dict[str, Any]]:
    packages: list[dict[str, Any]] = json.loads(LIST.read_text())
    return packages


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def differences(folder: Path = FOLDER) -> list[str]:
    """What of the folder is not as the list says, a sentence each."""
    found = []
    known = {LIST.name}
    for package in _packages():
        for name, told in package["files"].items():
            known.add(name)
            file = folder / name
            if not file.is_file():
                found.append(f"{name} is missing")
            elif _sha256(file.read_bytes()) != told["sha256"]:
                found.append(f"{name} is not that of {package['name']} {package['version']}")
    found += [f"{one.name} is in no list" for one in folder.iterdir() if one.name not in known]
    return found


def _fetch(package: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        name = f"{package['name']}@{package['version']}"
        subprocess.run(["npm", "pack", "--silent", name], cwd=folder, check=True)
        [packed] = Path(folder).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
        if package["integrity"] != f"sha512-{digest}":
            raise SystemExit(f"{name} has the checksum sha512-{digest}, which is not the one told")
        with tarfile.open(packed) as archive:
            for name, told in package["files"].items():
                member = archive.extractfile(f"package/{told['from']}")
                assert member is not None
                content = member.read()
                (FOLDER / name).write_bytes(content)
                told["sha256"] = _sha256(content)


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        found = differences()
        print("\n".join(found) or "all as the list says")
        return 1 if found else 0
    packages = _packages()
    for package in packages:
        _fetch(package)
    LIST.write_text(json.dumps(packages, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
