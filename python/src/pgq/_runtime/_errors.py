"""What user code raises: as texts that the database can keep, and as no end of a runner."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

__all__ = ["FATAL", "HandlerTimeout", "Logger", "failure", "guarded", "plain", "refused", "trace"]

LONGEST = 4000

FATAL = (SystemExit, KeyboardInterrupt)
"""What ends a runner when a hook or a log handler raises it."""

_REFUSED = re.compile(
    r"authentication failed|no password supplied|pg_hba\.conf|is not permitted to log in"
    r'|(role|database) "[^"]*" does not exist|no such (user|database)'
)
"""What servers and PgBouncer say, in English: libpq does not tell the SQLSTATE of a connection
that failed. In other languages it counts as a server that is away."""


class HandlerTimeout(TimeoutError):
    """A handler did not return within its `timeout`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the handler did not return within its timeout of {seconds:g} s")


def failure(error: object) -> str:
    """The name of an error, and what it says. Never raises."""
    name = _guess(lambda: type(error).__name__) or "an error without a name"
    text = plain(error)
    return plain(f"{name}: {text}") if text else plain(name)


@overload
def plain(text: None) -> None: ...
@overload
def plain(text: object) -> str: ...
def plain(text: object) -> str | None:
    """The text of anything, without what the database cannot have in one. Never raises."""
    if text is None:
        return None
    found = _guess(lambda: str(text))
    if found is None:
        return "its str() raises"
    found = found.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return found if len(found) <= LONGEST else f"{found[:LONGEST]} …"


def _guess(read: Callable[[], str]) -> str | None:
    try:
        return str.__str__(read())  # a plain one, of a subclass as well
    except BaseException:
        return None


def trace(error: object) -> Any:
    """An error as the `exc_info` of a log record, read past properties of its class."""
    if not issubclass(type(error), BaseException):
        return None
    descriptor: Any = BaseException.__dict__["__traceback__"]
    return type(error), error, descriptor.__get__(error)


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class Logger(_Adapter):
    """A logger whose handlers may raise: a record is lost then, and nothing else."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name), {})

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        """As it is: `extra` belongs to the record."""
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write a record."""
        kwargs.setdefault("stacklevel", 2)  # the caller's line, not this one
        try:
            super().log(level, msg, *args, **kwargs)
        except FATAL:
            raise
        except BaseException:  # to log this would raise as well
            return


def refused(error: Exception) -> bool:
    """Whether a server was reached and does not let this role in, or lacks the database."""
    return _REFUSED.search(str(error)) is not None


def guarded(logger: Logger, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call user code beside the work, whose failure is no reason not to do the work."""
    try:
        return call(*arguments)
    except FATAL:
        raise
    except BaseException:
        logger.exception("%s has failed", what)
        return None
