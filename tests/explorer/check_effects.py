"""What effects promise: begun once, finished for good, and kept as long as their job."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.database import Link
from explorer.history import Event, History

__all__ = ["EFFECTS", "check_effects"]

EFFECTS = ("begin_effect", "finish_effect", "delete_effect")

Place = tuple[int, str]


@dataclass(frozen=True)
class Note:
    """What is noted of an effect: by which token, since which call, and its result."""

    token: str
    event: Event
    finished: bool
    result: str | None = None


def check_effects(history: History, link: Link) -> None:
    """Replay what was answered, and hold it against what the view shows."""
    notes: dict[Place, Note] = {}
    for event in history.committed(*EFFECTS):
        place = (event.arguments["job_id"], event.arguments["effect"])
        known = notes.pop(place, None)
        if event.call == "begin_effect":
            known = _begun(history, event, known)
        elif event.rows[0][event.call]:
            known = _settled(history, event, known)
        elif known is not None:
            _check_refusal(history, event, known)
        if known is not None:
            notes[place] = known
    _check_view(history, notes, link)


def _begun(history: History, event: Event, known: Note | None) -> Note:
    row = event.rows[0]
    told = f"{event.statement}: {event.answer}, after {known and known.event.statement}"
    again = event.arguments.get("at_least_once") is True
    if row["state"] == "begun":
        if known is not None and (known.finished or not again):
            history.violate("effect twice", told)
        return Note(event.arguments["lease_token"], event, finished=False)
    if known is None or known.finished != (row["state"] == "finished"):
        history.violate("effect unknown", told)
        return Note("", event, row["state"] == "finished", row["result"])
    if row["result"] != known.result or (again and not known.finished):
        history.violate("effect unknown", told)
    return known


def _settled(history: History, event: Event, known: Note | None) -> Note | None:
    """A finish or a forget that was answered with true."""
    told = f"{event.statement} is true, after {known and known.event.statement}"
    token = event.arguments["lease_token"]
    if known is None or (known.finished and event.call == "delete_effect"):
        history.violate("effect unknown", told)
    elif known.finished:
        if known.token != token:
            history.violate("effect twice", told)
        return known
    if event.call == "delete_effect":
        return None
    return Note(token, event, finished=True, result=event.arguments["result"])


def _check_refusal(history: History, event: Event, known: Note) -> None:
    """Whoever began it may settle it, until it is settled or cleanup comes."""
    own = known.event.transaction is event.transaction
    if (
        known.token == event.arguments["lease_token"]
        and (own or known.event.transaction.ended < event.started)
        and not (known.finished and event.call == "delete_effect")
        and not any(e.ended >= known.event.started for e in history.events("cleanup"))
    ):
        history.violate("effect lost", f"{event.statement}, after {known.event.statement}")


def _check_view(history: History, notes: dict[Place, Note], link: Link) -> None:
    shown = {
        (row["job_id"], row["effect"]): (row["lease_token"], row["finished"], row["result"])
        for row in link.rows(
            "select job_id, effect, lease_token, finished_at is not null as finished, result"
            " from pgq.effects"
        )
    }
    living = {
        row["job_id"]
        for row in link.rows(
            "select j.job_id from pgq.queue as q inner join (select job_id, queue_id from pgq.job"
            " union all select job_id, queue_id from pgq.dead_job) as j on j.queue_id = q.queue_id"
        )
    }
    expected = {
        place: (note.token, note.finished, note.result)
        for place, note in notes.items()
        if place[0] in living
    }
    for place in shown.keys() | expected.keys():
        if shown.get(place) != expected.get(place):
            history.violate(
                "effect lost",
                f"{place} is noted as {shown.get(place)}, expected {expected.get(place)}",
            )
