"""A client of PostgREST without any library, as curl is."""

from __future__ import annotations

import base64
import hmac
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "Http", "signed"]


def signed(claims: dict[str, Any], secret: str) -> str:
    """A JSON Web Token."""

    def encoded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    header = encoded(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = f"{header}.{encoded(json.dumps(claims).encode())}"
    return f"{body}.{encoded(hmac.digest(secret.encode(), body.encode(), 'sha256'))}"


@dataclass(frozen=True)
class Answer:
    """Status and decoded body of a response."""

    status: int
    body: Any


@dataclass(frozen=True)
class Http:
    """A client without any library, as curl is."""

    url: str
    token: str | None = None

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
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                status, body = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read()
        return Answer(status, json.loads(body) if body else None)
