"""What was released stays as it is, byte for byte."""

from __future__ import annotations

from hashlib import sha256

from support.house import ROOT, checked_in

RELEASED: dict[str, str] = {}
"""The checksum of each script of a released version; one that is released adds a line here."""


def test_released_scripts_and_no_others_are_committed() -> None:
    committed = {
        name: sha256((ROOT / name).read_bytes()).hexdigest()
        for name in checked_in()
        if name.startswith("migrations/pgq--")
    }
    assert committed == {f"migrations/{name}": checksum for name, checksum in RELEASED.items()}
