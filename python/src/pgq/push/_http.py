"""One request, to an address that was checked, and what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http.cookiejar import DefaultCookiePolicy

import httpx

from pgq.push import _addresses
from pgq.push._config import Push

__all__ = ["Answer", "Sender", "retry_after"]

_DRAINED = 65536
_DRAIN_SECONDS = 1.0


@dataclass(frozen=True)
class Answer:
    """What came of a request."""

    status: int | None
    """None: no answer came."""
    error: str
    """Why it counts as failed, without any content; empty: it was accepted."""
    retry_after: float | None
    """Seconds that the receiver asked to wait."""
    seconds: float

    @property
    def accepted(self) -> bool:
        """Whether the receiver has taken it: any 2xx."""
        return self.status is not None and 200 <= self.status < 300


class _CheckedTransport(httpx.AsyncBaseTransport):
    """Looks up the host, checks the addresses, and connects to nothing but these.

    The name stays in the header Host and in the TLS handshake. Each sender has its own, because a
    connection that is kept open is known by its address alone.
    """

    def __init__(self, push: Push) -> None:
        context = httpx.create_ssl_context(trust_env=False)
        if push.ca_file is not None:
            context.load_verify_locations(cafile=push.ca_file)
        self._inner = httpx.AsyncHTTPTransport(
            verify=context,
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=push.concurrency),
        )
        self._allow_private = push.allow_private
        self._timeout = push.timeout
        # each look-up takes a thread; all partitions ask for the same name
        self._looking_up = asyncio.Lock()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.raw_host.decode("ascii")
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        async with self._looking_up:
            addresses = await _addresses.public_addresses(
                host, port, allow_private=self._allow_private
            )
        extensions = {
            **request.extensions,
            # so that an address that does not answer leaves time for the next one
            "timeout": {"connect": self._timeout / len(addresses)},
            "sni_hostname": host,
        }
        for number, address in enumerate(addresses, 1):
            aimed = httpx.Request(
                request.method,
                request.url.copy_with(host=str(address)),
                headers=request.headers,
                stream=request.stream,
                extensions=extensions,
            )
            try:
                return await self._inner.handle_async_request(aimed)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if number == len(addresses):
                    raise
        raise AssertionError("a host without addresses is an error of the look-up")

    async def aclose(self) -> None:
        await self._inner.aclose()


class Sender:
    """Sends batches to the url of one push."""

    def __init__(self, push: Push) -> None:
        self._push = push
        self._client = httpx.AsyncClient(
            transport=_CheckedTransport(push),
            headers={"user-agent": "pgq-push"},
            follow_redirects=False,
            timeout=None,
            trust_env=False,
        )
        # nothing of one answer goes into a later request
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send a body; failures are answers too."""
        begun = time.monotonic()
        request = self._client.build_request(
            "POST", self._push.url, content=body, headers=[*self._push.headers, *headers.items()]
        )
        status: int | None = None
        wait: float | None = None
        error = ""
        try:
            response = await asyncio.wait_for(
                self._client.send(request, stream=True), timeout=self._push.timeout
            )
        except (asyncio.TimeoutError, httpx.TimeoutException):
            error = f"no answer within {self._push.timeout:g} s"
        except _addresses.AddressRefused as refused:
            error = str(refused)
        except socket.gaierror as failed:
            error = f"the host is not known: {failed.strerror}"
        except httpx.ConnectError as failed:
            error = f"no connection: {failed}"
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as failed:
            error = f"no answer: {type(failed).__name__}"
        else:
            status = response.status_code
            wait = retry_after(response.headers.get("retry-after"), datetime.now(timezone.utc))
            if not 200 <= status < 300:
                error = f"HTTP {status}"
            await self._drain(response)
        return Answer(status, error, wait, time.monotonic() - begun)

    async def _drain(self, response: httpx.Response) -> None:
        """Read a short answer, so that the connection can be used again; nothing looks at it."""

        async def read() -> None:
            size = 0
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > _DRAINED:
                    return

        # the status is what counts, also when the rest never comes
        with contextlib.suppress(asyncio.TimeoutError, httpx.HTTPError, OSError):
            try:
                await asyncio.wait_for(read(), timeout=_DRAIN_SECONDS)
            finally:
                await response.aclose()


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After asks for, given as seconds or as a date; None: it asks nothing."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - now).total_seconds())
