"""The driver's half of writes whose tasks have begun writes of their own: all or none of them.

In each database one transaction publishes what the tasks have staged there. Where there are several
databases, everything is done in all of them before the first is told to commit. So what can fail
has failed by then, but for a server that is lost between two commits. After that the write is in
some databases, and not in others; with a name, repeating it completes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import psycopg

from pgq.errors import translated
from pgq.spark._digest import digest
from pgq.spark._retry import Patience
from pgq.spark._send import Part, State, begin_write, commit_write
from pgq.spark._write_options import WriterOptions

if TYPE_CHECKING:
    from pgq.spark._staged import Staged

__all__ = [
    "PartlyWritten",
    "abort_tasks",
    "commit_tasks",
]

_log = logging.getLogger("pgq.spark")

_DEADLOCKS = 4
"""How often a commit that was the victim of a deadlock is tried again."""

Work = Callable[[psycopg.Connection[Any], int], State]
"""What is done in a database, given its number; nothing of it stays if it was a duplicate."""


class PartlyWritten(RuntimeError):
    """A write is committed in some of its databases and not in others.

    With ``producer`` and ``seq`` repeat it: where it is committed nothing is written again.
    """


def commit_tasks(
    options: WriterOptions, producer: str | None, seq: int | None, staged: Sequence[Staged]
) -> list[State]:
    """Publish what the tasks have staged, and return what each database says of it.

    Nothing where a write of this producer and number was committed.
    """
    target = options.topic or options.queue
    parts = [part for task in staged for part in task.parts]
    # Known or not, they are the same everywhere, so that each database knows the name.
    targets = sorted({part.target for part in parts}) if target is None else [target]
    if not targets:
        return []

    def commit(connection: psycopg.Connection[Any], shard: int) -> State:
        here = [part for part in parts if part.shard == shard]
        done: State | None = None
        for name in targets:
            # an empty write that has the name
            place = {"queue" if options.queue is not None else "topic": name}
            done = begin_write(connection, options, **place, producer=producer, seq=seq)
            if not done.duplicate or options.check_repeated:
                named = None if producer is None else _digest(options, here)
                done = commit_write(connection, done.write_id, digest=named)
            if done.duplicate:
                return done
        for part in _in_order(staged, shard):
            commit_write(connection, part.write_id)
        assert done is not None
        return replace(done, messages=sum(part.rows for part in here))

    outcomes = _in_transactions(options, commit)
    left = [part for part in parts if outcomes[part.shard].duplicate]
    if left:
        _log.info("write %s of producer %r was committed before", seq, producer)
        _abort(options, [(part.shard, part.write_id) for part in left])
    return outcomes


def _in_order(staged: Sequence[Staged], shard: int) -> list[Part]:
    """What the tasks have staged in a database: by topic, and then by task.

    Topics come in one order wherever several are written, so that two writes do not meet crosswise.
    """
    found = [
        (part.target, task.task, part)
        for task in staged
        for part in task.parts
        if part.shard == shard
    ]
    return [part for _, _, part in sorted(found, key=lambda place: place[:2])]


def _digest(options: WriterOptions, parts: Sequence[Part]) -> str | None:
    """What tells these rows from others, unless that is not wanted."""
    if not options.check_repeated:
        return None
    return digest(sum(part.rows for part in parts), sum(part.checksums for part in parts))


def abort_tasks(options: WriterOptions, staged: Sequence[Staged]) -> None:
    """Remove what the tasks have staged; what is not removed now, cleanup removes."""
    _abort(options, [(part.shard, part.write_id) for task in staged for part in task.parts])


def _abort(options: WriterOptions, writes: Iterable[tuple[int, str]]) -> None:
    """Refuse tasks that still send, and remove what was staged as far as it can be known."""
    by_shard: dict[int, list[str]] = {}
    for shard, write_id in writes:
        by_shard.setdefault(shard, []).append(write_id)
    for shard, write_ids in by_shard.items():
        with suppress(psycopg.Error), options.connect(shard, retry=0) as connection:
            for write_id in write_ids:
                connection.execute("select pgq.abort_write(%s::uuid)", [write_id])


# ---------------------------------------------------------------------------- transactions


@dataclass
class _Shard:
    """How far a database has come."""

    number: int
    outcome: State | None = None
    is_committed: bool = False
    was_sent: bool = False
    """Whether it was told to commit, and perhaps did, without an answer."""


def _in_transactions(options: WriterOptions, work: Work) -> list[State]:
    """Do the work in a transaction of each database, and then commit them all.

    Again after a deadlock with other publishers, and where a connection was lost: whether that was
    before the commit, the database knows.
    """
    shards = [_Shard(number) for number in range(len(options.conninfos))]
    deadlocks, patience = 0, Patience(options.retry)
    while True:
        try:
            with translated():
                _attempt(options, work, shards)
        except psycopg.Error as error:
            lost = isinstance(error, _Lost)
            if lost and patience.again(error):
                continue
            if isinstance(error, psycopg.errors.DeadlockDetected) and deadlocks < _DEADLOCKS:
                deadlocks += 1
                continue
            cause = error.__cause__ if lost else error
            committed = [shard.number for shard in shards if shard.is_committed]
            if not committed or not any(shard.was_sent for shard in shards):
                raise (cause or error) from None
            missing = [shard.number for shard in shards if not shard.is_committed]
            raise PartlyWritten(
                f"the write is committed in the shards {committed}, and not in {missing}: {cause}. "
                "Repeat it with the same producer and seq: where it is committed, nothing is "
                "written again"
            ) from cause
        return [shard.outcome for shard in shards if shard.outcome is not None]


class _Lost(psycopg.OperationalError):
    """A connection was lost that had been made."""


@contextmanager
def _told(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Tell the loss of the connection from other errors."""
    try:
        yield
    except psycopg.OperationalError as error:
        if connection.broken:
            raise _Lost(str(error)) from error
        raise


def _attempt(options: WriterOptions, work: Work, shards: Sequence[_Shard]) -> None:
    with ExitStack() as stack:
        # Before any work: a server that is away is waited for without locks in the others.
        connections = [
            (shard, stack.enter_context(closing(options.connect(shard.number))))
            for shard in shards
            if not shard.is_committed
        ]
        opened = []
        for shard, connection in connections:
            connection.autocommit = False
            with _told(connection):
                outcome = work(connection, shard.number)
            if outcome.duplicate:
                connection.rollback()
                # it may be this very write, whose answer was lost
                if not shard.was_sent or shard.outcome is None:
                    shard.outcome = outcome
                shard.is_committed = True
            else:
                shard.outcome = outcome
                opened.append((shard, connection))
        for shard, connection in opened:
            shard.was_sent = True
            with _told(connection):
                connection.commit()
            shard.is_committed = True
