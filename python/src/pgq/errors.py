"""The errors that pgq's functions raise, as Python exceptions.

The database tells its errors apart by SQLSTATE, and so does this module: `BY_SQLSTATE` is the one
place where a code meets its class, and no message text is ever looked at. Every class is also a
psycopg (DB-API) class, so ``except psycopg.Error`` catches them all.

Codes that PostgreSQL itself defines keep psycopg's classes; they stand in the dictionary so that
it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import psycopg
from psycopg.errors import (
    ActiveSqlTransaction,
    DeadlockDetected,
    DependentObjectsStillExist,
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidParameterValue,
    LockNotAvailable,
    NullValueNotAllowed,
    SerializationFailure,
)

if TYPE_CHECKING:
    from pgq._unreadable import Unreadable

__all__ = [
    "BY_SQLSTATE",
    "RETRYABLE",
    "AlreadyExists",
    "EffectInterrupted",
    "LeaseLost",
    "OffsetOutOfRange",
    "PgqError",
    "QueueFull",
    "ResultTimeout",
    "UnknownGroup",
    "UnknownPartition",
    "UnknownQueue",
    "UnknownSchedule",
    "UnknownSubscription",
    "UnknownTopic",
    "UnreadablePayload",
    "WriteLost",
    "translated",
]


class PgqError(psycopg.DatabaseError):
    """Base of the errors that pgq's functions raise under codes of their own (class MQ).

    As text it is the message with DETAIL and HINT. The functions that the server was in are in
    ``diag.context``.
    """

    def __str__(self) -> str:
        lines = [self.diag.message_primary or super().__str__()]
        lines += [f"DETAIL:  {self.detail}"] if self.detail else []
        lines += [f"HINT:  {self.hint}"] if self.hint else []
        return "\n".join(lines)

    @property
    def detail(self) -> str | None:
        """The facts of the case, for example the first offset that is still there."""
        return self.diag.message_detail

    @property
    def hint(self) -> str | None:
        """What the caller can do about it."""
        return self.diag.message_hint


class UnknownTopic(PgqError, psycopg.ProgrammingError):
    """There is no topic of that name."""

    sqlstate = "MQ001"


class UnknownQueue(PgqError, psycopg.ProgrammingError):
    """There is no queue of that name."""

    sqlstate = "MQ002"


class UnknownGroup(PgqError, psycopg.ProgrammingError):
    """The topic has no consumer group of that name."""

    sqlstate = "MQ003"


class OffsetOutOfRange(PgqError, psycopg.DataError):
    """The offset lies above the newest message, or below the oldest one that retention has left.

    `detail` names the offsets that there are.
    """

    sqlstate = "MQ004"


class AlreadyExists(PgqError, psycopg.ProgrammingError):
    """One of that name exists, with other settings than those that were given."""

    sqlstate = "MQ005"


class LeaseLost(PgqError, psycopg.OperationalError):
    """The partition, or one of the jobs, is not leased to the caller any more.

    Roll back what was done for its messages or jobs: whoever holds the lease now gets them again.
    """

    sqlstate = "MQ006"


class UnknownPartition(PgqError, psycopg.ProgrammingError):
    """The topic has no partition of that number."""

    sqlstate = "MQ007"


class WriteLost(PgqError, psycopg.OperationalError):
    """The bulk write was committed, started again, aborted or forgotten, or lost what was staged.

    Start it again; with the same producer and seq nothing is written twice.
    """

    sqlstate = "MQ008"


class UnknownSchedule(PgqError, psycopg.ProgrammingError):
    """There is no schedule of that name."""

    sqlstate = "MQ009"


class QueueFull(PgqError, psycopg.OperationalError):
    """The queue has as many unfinished jobs as its `max_unfinished` allows: nothing was added.

    Try again when workers have finished some.
    """

    sqlstate = "MQ010"


class UnknownSubscription(PgqError, psycopg.ProgrammingError):
    """There is no subscription of that name."""

    sqlstate = "MQ011"


class EffectInterrupted(Exception):
    """An effect of a job was begun before, and nobody knows whether it happened: it was not run.

    `Client.run_once` raises it, not the database. Whoever finds out what happened calls
    `finish_effect` or `delete_effect`; until then each attempt of the job ends here.
    """

    def __init__(self, job_id: int, effect: str, attempt: int, begun_at: datetime) -> None:
        super().__init__(job_id, effect, attempt, begun_at)
        self.job_id = job_id
        self.effect = effect
        self.attempt = attempt
        """Which attempt of the job began it."""
        self.begun_at = begun_at

    def __str__(self) -> str:
        return (
            f'effect "{self.effect}" of job {self.job_id} may have happened:'
            f" attempt {self.attempt} began it at {self.begun_at} and has not said how it ended"
        )


class ResultTimeout(TimeoutError):
    """A job had not ended within the timeout of `Client.await_result`, which raises it."""

    def __init__(self, job_id: int, state: str) -> None:
        super().__init__(job_id, state)
        self.job_id = job_id
        self.state = state
        """The state of the job when the time was up."""

    def __str__(self) -> str:
        return f"job {self.job_id} has not ended in time: it is {self.state}"


class UnreadablePayload(Exception):
    """JSON that Python could not decode was used as a value.

    The client raises it, not the database: the row has an `Unreadable` there, which has the text.
    """

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__(unreadable)
        self.unreadable = unreadable
        self.topic = unreadable.topic
        self.partition = unreadable.partition
        self.log_offset = unreadable.log_offset
        self.queue = unreadable.queue
        self.job_id = unreadable.job_id

    def __str__(self) -> str:
        return f"cannot be read ({self.unreadable.source}): {self.unreadable.error}"


BY_SQLSTATE: dict[str, type[psycopg.Error]] = {
    "0A000": FeatureNotSupported,
    "22004": NullValueNotAllowed,
    "22023": InvalidParameterValue,
    "25001": ActiveSqlTransaction,
    "2BP01": DependentObjectsStillExist,
    "40001": SerializationFailure,
    "40P01": DeadlockDetected,
    "42501": InsufficientPrivilege,
    "55P03": LockNotAvailable,
    "MQ001": UnknownTopic,
    "MQ002": UnknownQueue,
    "MQ003": UnknownGroup,
    "MQ004": OffsetOutOfRange,
    "MQ005": AlreadyExists,
    "MQ006": LeaseLost,
    "MQ007": UnknownPartition,
    "MQ008": WriteLost,
    "MQ009": UnknownSchedule,
    "MQ010": QueueFull,
    "MQ011": UnknownSubscription,
}
"""Codes that pgq's functions raise, and the class each arrives as; others keep psycopg's own."""

RETRYABLE: tuple[type[psycopg.Error], ...] = (SerializationFailure, DeadlockDetected)
"""The transaction failed because of others beside it: the same work may succeed next time."""


@contextmanager
def translated() -> Iterator[None]:
    """Within this block errors of class MQ arrive as the classes of this module.

    The client does this around each of its calls. Use it around statements of your own that call
    pgq's functions::

        with pgq.translated():
            connection.execute("select pgq.drop_topic('readings')")
    """
    try:
        yield
    except psycopg.Error as error:
        said = error.diag.message_primary or ""
        if isinstance(error, psycopg.errors.InvalidSchemaName) and "pgq" in said:
            hint = "pgq is not installed in this database: 'pgq migrate' installs it"
            error.args = (f"{said}\nHINT:  {hint}", *error.args[1:])
        kind = BY_SQLSTATE.get(error.sqlstate or "")
        if kind is None or isinstance(error, kind):
            raise
        known = kind(*error.args)
        # The state carries the server's whole report, so `diag` and pickling go on working.
        known.__dict__.update(vars(error))
        raise known.with_traceback(error.__traceback__) from None
