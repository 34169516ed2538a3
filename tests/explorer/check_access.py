"""Access: what was revoked before a call began is refused, and what was granted is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from explorer.access_calls import CONSUME, HEIR, OWNER, PUBLISH, ROLES
from explorer.history import Event, History, Transaction

__all__ = ["check_access"]

CHANGES = ("grant_access", "revoke_access", "restrict")
REFUSED = ("42501", "MQ001", "MQ002")
_PROCESS = re.compile(r"process (\d+)", re.IGNORECASE)
ABOVE = ("repeatable read", "serializable")


@dataclass
class State:
    """Which topics and queues are restricted, and all grants, at one time."""

    restricted: set[tuple[str, str]] = field(default_factory=set)
    grants: set[tuple[str, str, str, str]] = field(default_factory=set)

    def after(self, event: Event) -> State:
        given = event.arguments
        what = "topic" if "topic" in given else "queue"
        name = given[what]
        state = State(set(self.restricted), set(self.grants))
        if event.call == "grant_access":
            state.grants.add((what, name, given["role"], given["access"]))
        elif event.call == "revoke_access":
            state.grants -= {
                grant
                for grant in state.grants
                if grant[:3] == (what, name, given["role"])
                and given.get("access", grant[3]) == grant[3]
            }
        if event.call == "grant_access" or given.get("restricted"):
            if name != "*":
                state.restricted.add((what, name))
        elif event.call == "restrict":
            state.restricted.discard((what, name))
            state.grants -= {grant for grant in state.grants if grant[:2] == (what, name)}
        return state

    def allows(self, role: str, access: str, what: str, name: str) -> bool:
        roles = {role, "public"} | ({ROLES[0]} if role == HEIR else set())
        return (what, name) not in self.restricted or any(
            (what, target, member, kind) in self.grants
            for target in (name, "*")
            for member in roles
            for kind in (access, "admin")
        )


def check_access(history: History) -> None:
    """Hold each call of a role against the changes that were in force at its time."""
    changes = history.committed(*CHANGES)
    _check_deadlocks(history)
    states = [State()]
    for change in changes:
        states.append(states[-1].after(change))
    for event in _guarded(history):
        if any(other.call in CHANGES for other in event.transaction.events):
            continue  # it sees its own, which nobody else does
        access = "publish" if event.call in PUBLISH else "consume"
        what = "topic" if "topic" in event.arguments else "queue"
        target = (access, what, str(event.arguments[what]))
        began = event.started
        reads_late = event.call in CONSUME or _is_duplicate(event)
        if event.transaction.level in ABOVE and (reads_late or not event.succeeded):
            began = event.transaction.started
        first = sum(change.transaction.ended < began for change in changes)
        last = sum(change.transaction.ended <= event.ended for change in changes)
        possible = {
            state.allows(event.arguments["@"], *target) for state in states[first : last + 1]
        }
        told = f"{event.statement}: {event.answer}"
        if event.succeeded and True not in possible:
            history.violate("not refused", told)
        elif not event.succeeded and False not in possible:
            history.violate("refused", told)


def _guarded(history: History) -> Iterator[Event]:
    """The calls of roles that were answered, or refused."""
    for transaction in history.transactions:
        for event in transaction.events:
            role = event.arguments.get("@", OWNER)
            if role == OWNER or event.call not in PUBLISH | CONSUME or event.answer is None:
                continue
            name = event.arguments.get("topic", event.arguments.get("queue"))
            if name in ("c", "s"):
                continue  # there is no such one
            if event.succeeded or event.answer.code in REFUSED:
                yield event


def _is_duplicate(event: Event) -> bool:
    return event.call in PUBLISH and all(row["duplicate"] for row in event.rows)


def _check_deadlocks(history: History) -> None:
    """Transactions of one call each take their locks in one order.

    Not cleanup, which does many things in one: it waits for 0.2 s at most, so that whoever waits
    for it goes on before a deadlock is looked for. In a trial it may wait for longer.
    """
    for event in (e for t in history.transactions for e in t.events):
        if event.answer is None or event.answer.code != "40P01":
            continue
        pids = {int(pid) for pid in _PROCESS.findall(event.answer.message)}
        within = [
            transaction
            for transaction in history.transactions
            if transaction.pid in pids
            and transaction.started <= event.ended
            and not 0 <= transaction.ended < event.started
        ]
        if any(e.call == "cleanup" for transaction in within for e in transaction.events):
            continue
        if all(_calls_before(transaction, event) <= 1 for transaction in within):
            history.violate("deadlock", event.statement)


def _calls_before(transaction: Transaction, event: Event) -> int:
    """How many calls of a transaction may have taken locks by the time of an event."""
    return sum(
        other.call not in ("look", "take_id") and other.started <= event.ended
        for other in transaction.events
    )
