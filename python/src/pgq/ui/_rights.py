"""Which acts this page can do: what its role may call, and of which topics and queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import psycopg

from pgq import Client
from pgq.cli._catalog import ask

__all__ = ["NEEDS", "rights"]


class Need(NamedTuple):
    """The functions that an act calls, and the access to a restricted topic or queue."""

    functions: tuple[str, ...]
    topic: str | None = None
    queue: str | None = None


_REDRIVE = Need(("redrive",), queue="admin")
_PURGE = Need(("purge_queue",), queue="admin")
_CANCEL = Need(("cancel_job",), queue="consume")
_RETRY = Need(("retry_job",), queue="consume")

NEEDS: Mapping[str, Need] = {
    "publish": Need(("publish",), topic="publish"),
    "enqueue": Need(("enqueue",), queue="publish"),
    "assign_offsets": Need(("assign_offsets",), topic="consume"),
    "seek": Need(("seek",), topic="consume"),
    "pause_queue": Need(("pause_queue",), queue="admin"),
    "resume_queue": Need(("resume_queue",), queue="admin"),
    "redrive": _REDRIVE,
    "redrive_chosen": _REDRIVE,
    # what would be redriven is counted by purge_queue
    "redrive_page": Need(("redrive", "purge_queue"), queue="admin"),
    "purge_dead": _PURGE,
    "purge_queue": _PURGE,
    "purge_chosen": _PURGE,
    "purge_page": _PURGE,
    "cancel_job": _CANCEL,
    "cancel_chosen": _CANCEL,
    "cancel_page": Need(("cancel_jobs",), queue="consume"),
    "retry_job": _RETRY,
    "retry_chosen": _RETRY,
    "retry_page": Need(("retry_jobs",), queue="consume"),
    "pause_schedule": Need(("pause_schedule",), "publish", "publish"),
    "resume_schedule": Need(("resume_schedule",), "publish", "publish"),
    "unsubscribe": Need(("unsubscribe",), "consume", "publish"),
    "delete_worker": Need(("delete_worker",)),
    "cleanup": Need(("cleanup",)),
}


def rights(client: Client, role: str, *, read_only: bool, standby: bool) -> dict[str, Any]:
    """The acts that the role may do at all, and its access to restricted topics and queues.

    roles: whose workers it may delete; None: those of any.
    """
    if read_only or standby:
        why = "a standby: it can only be read" if standby else "read-only (--read-only)"
        return {"acts": {}, "refused": why, "restricted": {}, "roles": None}
    may = {row["name"] for row in ask(client.connection, "functions", [role]) if row["may"]}
    found: dict[str, Any] = {
        "acts": {
            name: {"topic": need.topic, "queue": need.queue}
            for name, need in NEEDS.items()
            if may.issuperset(need.functions)
        },
        "refused": f"role {role} may not do this",
        "restricted": {},
        "roles": None,
    }
    try:
        with client.connection.transaction():  # a savepoint, see permitted
            granted = client.admin.list_access()
            topics = [one.topic for one in client.admin.list_topics() if one.restricted]
            queues = [one.queue for one in client.admin.list_queues() if one.restricted]
    except psycopg.errors.InsufficientPrivilege:
        return found  # the database says what is refused
    own = {"public", *(row["role"] for row in ask(client.connection, "own roles"))}
    if ask(client.connection, "server")[0]["owner"] in own:
        return found
    found["roles"] = sorted(own)
    for kind, names in (("topic", topics), ("queue", queues)):
        access: dict[str, set[str]] = {"*": set(), **{name: set() for name in names}}
        for one in granted:
            target = getattr(one, kind)
            if one.role in own and target in access:
                access[target].add(one.access)
        every = access.pop("*")
        found["restricted"][kind] = {name: sorted(had | every) for name, had in access.items()}
        if "admin" in every:
            found["roles"] = None
    return found
