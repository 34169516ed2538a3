"""What the tests of the HTTP API share."""

from __future__ import annotations

import pytest

from support.http import Http
from support.postgrest import Postgrest


@pytest.fixture
def http(postgrest: Postgrest) -> Http:
    return Http(postgrest.url)
