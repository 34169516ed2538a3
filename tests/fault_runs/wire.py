"""What stands between clients and the server: it can be led elsewhere, and cuts connections."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections import Counter

__all__ = ["CUTS", "Wire"]

CUTS = ["before the commit", "within the commit", "behind the commit", "anywhere"]
"""Where a connection is cut: the server never hears of the commit; hears of it, while the client
is cut off at once; has answered, and the answer is lost; or somewhere."""


class Wire:
    """A proxy of TCP in a thread of its own."""

    def __init__(self, port: int, seed: str) -> None:
        self.target = port
        self.cuts: Counter[str] = Counter()
        self.port = 0
        self._armed: list[str] = []
        self._rng = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Task[None]] = set()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[ready], daemon=True)
        self._thread.start()
        ready.wait(10)

    def cut(self, where: str) -> None:
        """Cut the next connection that comes there."""
        self._armed.append(where)

    def close(self) -> None:
        """Cut all, and end."""

        def end() -> None:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.call_later(0.2, self._loop.stop)

        self._loop.call_soon_threadsafe(end)
        self._thread.join(5)

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)

        async def listen() -> None:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()

        self._loop.create_task(listen())
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        lost = asyncio.Event()
        both = [
            asyncio.ensure_future(self._forth(reader, outer, writer, lost)),
            asyncio.ensure_future(self._back(inner, writer, outer, lost)),
        ]
        try:
            # cancelled when all ends
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            for end in (writer, outer):
                with contextlib.suppress(Exception):
                    end.transport.abort()

    def _fire(self, data: bytes) -> str:
        """The cut to make at these bytes of a client, or none."""
        if not self._armed:
            return ""
        where = self._armed[0]
        at_commit = b"COMMIT" in data
        if not (at_commit or (where == "anywhere" and self._rng.random() < 0.2)):
            return ""
        self.cuts[self._armed.pop(0)] += 1
        return where

    async def _forth(
        self,
        reader: asyncio.StreamReader,
        outer: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
        lost: asyncio.Event,
    ) -> None:
        while data := await reader.read(65536):
            where = self._fire(data)
            if where in ("before the commit", "anywhere"):
                return
            if where == "behind the commit":
                lost.set()
            outer.write(data)
            await outer.drain()
            if where == "within the commit":
                # the server goes on by itself, and finds nobody to answer to
                writer.transport.abort()
                await asyncio.sleep(0.05)
                return

    async def _back(
        self,
        inner: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        outer: asyncio.StreamWriter,
        lost: asyncio.Event,
    ) -> None:
        while data := await inner.read(65536):
            if lost.is_set():
                return
            writer.write(data)
            await writer.drain()
