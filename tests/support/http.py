"""A client of PostgREST without any library, as curl is."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "Http"]


@dataclass(frozen=True)
class Answer:
    """Status and decoded body of a response."""

    status: int
    body: Any


@dataclass(frozen=True)
class Http:
    """A client without any library, as curl is."""

    url: str

    def post(self, function: str, /, **arguments: Any) -> Answer:
        return self._post(function, arguments, {})

    def post_for_one(self, function: str, /, **arguments: Any) -> Answer:
        """The same for the one row of the answer, without an array around it."""
        return self._post(function, arguments, {"Accept": "application/vnd.pgrst.object+json"})

    def _post(self, function: str, arguments: dict[str, Any], headers: dict[str, str]) -> Answer:
        request = urllib.request.Request(
            f"{self.url}/rpc/{function}",
            data=json.dumps(arguments).encode(),
            headers={"Content-Type": "application/json", **headers},
        )
        return self._send(request)

    def get(self, path: str, /, **arguments: Any) -> Answer:
        query = urllib.parse.urlencode(arguments)
        return self._send(urllib.request.Request(f"{self.url}/{path}?{query}"))

    def _send(self, request: urllib.request.Request) -> Answer:
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                status, body = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read()
        return Answer(status, json.loads(body) if body else None)
