"""What stands in a row in the place of JSON that could not be decoded."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pgq.errors import UnreadablePayload

__all__ = ["Unreadable"]

_NAMED_BY_JSON = json.JSONEncoder.default.__code__


@dataclass(frozen=True, eq=False)
class Unreadable:
    """JSON of the database that Python could not decode: too many digits, or nested too deep.

    Using it as the value that it is not raises UnreadablePayload. To pass it on unchanged, publish
    ``Jsonb(unreadable.raw, dumps=str)``.
    """

    error: str
    """Why: the error of the decoder."""
    raw: str = field(repr=False)
    """The JSON text, exactly."""
    column: str = "payload"
    """Which part of the row it is: payload, headers, result, …"""
    topic: str | None = None
    partition: int | None = None
    log_offset: int | None = None
    queue: str | None = None
    job_id: int | None = None

    @property
    def source(self) -> str:
        """Where it came from, for an error."""
        names = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.log_offset,
            "queue": self.queue,
            "job_id": self.job_id,
        }
        known = [f"{name} {value}" for name, value in names.items() if value is not None]
        return ", ".join([self.column, *known])

    def _refuse(self, *_: object) -> NoReturn:
        raise UnreadablePayload(self)

    __getitem__ = __setitem__ = __delitem__ = __bool__ = __contains__ = __len__ = _refuse
    __int__ = __float__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __iter__(self) -> Iterator[Any]:
        self._refuse()

    def __getattr__(self, name: str) -> NoReturn:
        # Private names are those that copy, pickle and debuggers look for.
        if name.startswith("_") or name in type(self).__dataclass_fields__:
            raise AttributeError(name)
        self._refuse()

    # A comparison with a value would be false, and a handler would take the wrong branch.
    def __eq__(self, other: object) -> bool:
        if type(other) is not Unreadable:
            self._refuse()
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.raw, self.source))

    # json asks for the class only to name it in a TypeError that does not say which message it was.
    @property  # type: ignore[misc]
    def __class__(self) -> type[Unreadable]:
        if sys._getframe(1).f_code is _NAMED_BY_JSON:
            self._refuse()
        return Unreadable
