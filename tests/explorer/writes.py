"""Bulk writes: which of their chunks have to be there."""

from __future__ import annotations

from explorer.history import Event, History, Order

__all__ = ["check_writes", "written_chunks"]


def _targets(history: History) -> dict[str, Event]:
    """The begin of each write, by its id, if it was committed; who begins it again asks in vain
    for something else."""
    begun = reversed(history.committed("begin_write"))
    return {event.rows[0]["write_id"]: event for event in begun}


def _commits(history: History) -> dict[str, Event]:
    """The call that committed each write."""
    return {
        event.arguments["write_id"]: event
        for event in history.committed("commit_write")
        if not event.rows[0]["duplicate"]
    }


def _chunks(history: History, write_id: str) -> list[Event]:
    """The chunks of a write that were answered true and committed."""
    return [
        event
        for event in history.committed("write_chunk")
        if event.arguments["write_id"] == write_id and event.rows[0]["write_chunk"] is True
    ]


def written_chunks(
    history: History, what: str, name: str, cut: Order | None
) -> list[tuple[Event, Event]]:
    """What bulk writes have written to a topic or queue: the call that did it, and the chunk."""
    found = []
    commits = _commits(history)
    for write_id, begin in _targets(history).items():
        if begin.arguments.get(what) != name:
            continue
        if begin.arguments["atomic"] and write_id not in commits:
            continue
        for chunk in _chunks(history, write_id):
            done = commits[write_id] if begin.arguments["atomic"] else chunk
            if cut is None or done.order > cut:
                found.append((done, chunk))
    return found


def check_writes(history: History) -> None:
    """A chunk that was taken is in the write; its answer counts what it wrote."""
    commits = _commits(history)
    for write_id in _targets(history):
        commit = commits.get(write_id)
        if commit is None:
            continue
        chunks = _chunks(history, write_id)
        total = sum(len(chunk.numbers) for chunk in chunks)
        if total != commit.rows[0]["messages"]:
            history.violate(
                "chunk lost",
                f"{commit.statement} wrote {commit.rows[0]['messages']} messages, chunks with"
                f" {total} were taken",
            )
