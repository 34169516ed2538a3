"""What was released stays as it is, byte for byte."""

from __future__ import annotations

from hashlib import sha256

import pytest

from support.house import MIGRATIONS

RELEASED = {
    "pgq--0.1.0.sql": "f03bcaf8c54fcfc1da09a055840e67d1d11945bd6ed5822492345da0eb3ba621",
}
"""Each script of a released version; one that is released adds a line here."""


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_script_has_not_changed(name: str) -> None:
    assert sha256((MIGRATIONS / name).read_bytes()).hexdigest() == RELEASED[name]
