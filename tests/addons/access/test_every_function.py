"""What each function of the API asks of its caller, and that a stranger learns nothing by it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from addons.access.conftest import LEVELS, STRANGER, acting, role_of
from support.calls import GIVEN, Arguments, given
from support.session import Session, unchanged

# The access that each function needs to what it names, for calls as support.calls has them.
NEEDS = {
    "abort_write": "publish",
    "alter_group": "consume",
    "alter_queue": "admin",
    "alter_schedule": "publish",
    "alter_topic": "admin",
    "assign_offsets": "consume",
    "begin_write": "publish",
    "cancel_job": "consume",
    "cancel_jobs": "consume",
    "check_range": "consume",
    "claim_job": "consume",
    "claim_offsets": "consume",
    "commit_offset": "consume",
    "commit_write": "publish",
    "consume": "consume",
    "create_group": "consume",
    "drop_group": "consume",
    "drop_queue": "admin",
    "drop_schedule": "publish",
    "drop_topic": "admin",
    "enqueue": "publish",
    "enqueue_batch": "publish",
    "extend_poll": "consume",
    "fetch": "consume",
    "fetch_archived_jobs": "consume",
    "fetch_dead_letters": "consume",
    "fetch_packed": "consume",
    "fetch_range": "consume",
    "finish_and_claim": "consume",
    "get_job": "consume",
    "get_result": "publish or consume",
    "grant_access": "admin",
    "job_history": "consume",
    "list_errors": "consume",
    "list_offsets": "monitor",
    "watermark": "monitor",
    "nack_offsets": "consume",
    "next_due": "consume",
    "next_poll": "consume",
    "pause_queue": "admin",
    "pause_schedule": "publish",
    "peek_jobs": "consume",
    "poll": "consume",
    "publish": "publish",
    "publish_batch": "publish",
    "purge_queue": "admin",
    "redrive": "admin",
    "release_poll": "consume",
    "resume_queue": "admin",
    "resume_schedule": "publish",
    "retry_job": "consume",
    "retry_jobs": "consume",
    "search_jobs": "consume",
    "revoke_access": "admin",
    "seek": "consume",
    "subscribe": "publish and consume",
    "unsubscribe": "publish and consume",
    "write_chunk": "publish",
}
# The lease token says that its holder was let in.
BY_TOKEN = {
    "ack",
    "ack_batch",
    "archive_job",
    "archive_job_batch",
    "begin_effect",
    "extend_lease",
    "extend_lease_batch",
    "finish_effect",
    "delete_effect",
    "nack",
    "nack_batch",
    "reject_job",
    "release_job",
    "release_job_batch",
    "set_progress",
}
# They make something new, show what the caller may see, or name nothing of these.
OTHERS = {
    "delete_worker",
    "heartbeat",
    "create_queue",
    "create_schedule",
    "create_topic",
    "list_access",
    "list_groups",
    "list_schedules",
    "list_workers",
    "next_ticks",
    "repair_clock",
    "run_schedules",
    "schedule_cleanup",
    "set_storage_bounds",
}

# As if what is named by an id or a name of its own were not there, also to who sees the queue.
HIDDEN = {
    "abort_write": False,
    "alter_schedule": "MQ009",
    "cancel_job": False,
    "commit_write": "MQ008",
    "drop_schedule": "MQ009",
    "get_job": None,
    "get_result": ("gone", None, None, None),
    "job_history": [],
    "pause_schedule": "MQ009",
    "resume_schedule": "MQ009",
    "retry_job": False,
    "write_chunk": "MQ008",
}

# Names and ids that are not there, in the place of those that are.
ABSENT: Arguments = {
    "t": "u",
    "q": "v",
    "s": "w",
    "b": "c",
}


def outcome(session: Session, role: str, function: str, arguments: Arguments) -> Any:
    """What a call returns, or its error."""
    try:
        with acting(session, role):
            return session.call(function, **arguments)
    except psycopg.Error as error:
        return error


def told(error: psycopg.Error) -> tuple[str | None, ...]:
    """All that an error tells."""
    diag = error.diag
    return (
        error.sqlstate,
        diag.message_primary,
        diag.message_detail,
        diag.message_hint,
        diag.context,
        diag.table_name,
        diag.constraint_name,
    )


def test_each_function_is_among_these() -> None:
    assert {*NEEDS} | BY_TOKEN | OTHERS == {*GIVEN}
    assert not {*NEEDS} & BY_TOKEN
    assert not {*NEEDS} & OTHERS


@pytest.mark.parametrize("function", NEEDS)
def test_what_a_level_allows(function: str, roles: Session, known: Arguments) -> None:
    """The level that is needed is enough, and so is admin; no other one is."""
    arguments = given(function, known)
    for level in LEVELS:
        with unchanged(roles):
            answer = outcome(roles, role_of(level), function, arguments)
        allowed = level in (*NEEDS[function].split(" or "), "admin") or NEEDS[function] == "monitor"
        if allowed:
            assert not isinstance(answer, psycopg.Error), (level, answer)
        elif isinstance(answer, psycopg.Error):
            assert answer.sqlstate == HIDDEN.get(function, "42501"), (level, answer)
        else:
            assert function in HIDDEN, level
            assert answer == HIDDEN[function], (level, answer)


def in_place(hidden: Arguments) -> Arguments:
    """The same arguments with names and ids that are not there."""
    absent = {
        name: ABSENT.get(value, value) if isinstance(value, str) else value
        for name, value in hidden.items()
    }
    if "job_id" in hidden:
        absent["job_id"] = 999_999_999
    if "write_id" in hidden:
        absent["write_id"] = "00000000-0000-4000-8000-000000000000"
    return absent


def learns_nothing(session: Session, function: str, hidden: Arguments, absent: Arguments) -> None:
    """What is hidden and what is not there look the same, to the last word of the error."""
    first = outcome(session, STRANGER, function, hidden)
    second = outcome(session, STRANGER, function, absent)
    if not isinstance(first, psycopg.Error):
        assert first == second == HIDDEN[function], hidden
        return
    assert isinstance(second, psycopg.Error), hidden
    renamed = [
        text
        and text.replace(f'"{ABSENT["t"]}"', '"t"')
        .replace(f'"{ABSENT["q"]}"', '"q"')
        .replace(f'"{ABSENT["s"]}"', '"s"')
        .replace(f'"{ABSENT["b"]}"', '"b"')
        .replace(str(absent.get("write_id")), str(hidden.get("write_id")))
        for text in told(second)
    ]
    assert [*told(first)] == renamed, hidden


@pytest.mark.parametrize("function", NEEDS)
def test_a_stranger_learns_nothing(function: str, roles: Session, known: Arguments) -> None:
    """What each function says of a name that is hidden is what it says of one that is not there."""
    hidden = given(function, known)
    absent = in_place(hidden)
    if function == "subscribe":
        absent["subscription"] = hidden["subscription"]
    assert absent != hidden
    with unchanged(roles):
        learns_nothing(roles, function, hidden, absent)


@pytest.mark.parametrize("function", sorted(BY_TOKEN))
def test_a_lease_token_is_enough(function: str, roles: Session, known: Arguments) -> None:
    """Whoever has claimed a job finishes it, also when access was revoked since."""
    answer = outcome(roles, STRANGER, function, given(function, known))
    assert not isinstance(answer, psycopg.Error)
    assert answer not in (False, [], None)


def test_a_name_that_is_taken(roles: Session, known: Arguments) -> None:
    """That much has to be said; but not what it is like."""
    for function, name in (("create_topic", "topic"), ("create_queue", "queue")):
        error = outcome(roles, STRANGER, function, {name: "t" if name == "topic" else "q"})
        assert isinstance(error, psycopg.Error)
        assert error.sqlstate == "MQ005"
        assert error.diag.message_detail == f'Role "{STRANGER}" has no access to it.'
    for function, arguments in (
        ("create_schedule", {**given("create_schedule", known), "schedule": "s", "queue": None}),
        ("subscribe", {"subscription": "b", "topic": "open", "queue": "open"}),
    ):
        with roles.transaction(force_rollback=True):
            roles.create_topic(topic="open")
            roles.create_queue(queue="open")
            if function == "create_schedule":
                arguments["queue"] = "open"
            error = outcome(roles, STRANGER, function, arguments)
        assert isinstance(error, psycopg.Error)
        assert (error.sqlstate, error.diag.message_detail) == ("MQ005", None)


def test_what_lists_show(roles: Session, known: Arguments) -> None:
    """A stranger sees nothing of all this, the others the names; contents who consumes."""
    lists = {
        "list_topics": {"publish", "consume", "monitor", "admin"},
        "list_groups": {"publish", "consume", "monitor", "admin"},
        "list_queues": {"publish", "consume", "monitor", "admin"},
        "list_subscriptions": {"publish", "consume", "monitor", "admin"},
        "list_schedules": {"publish", "admin"},
        "run_schedules": {"publish", "admin"},
    }
    for function, levels in lists.items():
        assert outcome(roles, STRANGER, function, {}) == [], function
        shown = {level for level in LEVELS if outcome(roles, role_of(level), function, {})}
        assert shown == levels, function
    with pytest.raises(psycopg.Error) as caught, acting(roles, STRANGER):
        roles.list_groups(topic="t")
    assert caught.value.sqlstate == "MQ001"


def test_what_metrics_and_workers_show(roles: Session, known: Arguments) -> None:
    """Labels and sources have no name that the caller may not know."""
    hidden = {"t", "q", "followers", "s", "g", "leased"}
    roles.heartbeat(worker="w", sources=["t", "open", "q"])
    for role, sources in ((STRANGER, ["open"]), (role_of("monitor"), ["t", "open", "q"])):
        with acting(roles, role):
            [worker] = roles.list_workers()
            metrics = roles.metrics()
            text = roles.metrics_text()
        assert worker.sources == sources
        labels = {value for metric in metrics for value in metric.labels.values()}
        assert (hidden & labels == set()) == (role == STRANGER)
        assert ('"q"' in text) == (role != STRANGER)
    roles.delete_worker(worker="w")


def test_what_cleanup_says(roles: Session, known: Arguments) -> None:
    """It works for all, whoever calls it; but it does not say their names."""
    with roles.transaction(force_rollback=True):
        roles.execute(
            "update pgq.job set visible_at = '2029-12-31', last_attempt = true, attempt = 9"
        )
        roles.execute(f"set local role {STRANGER}")
        targets = {action.target for action in roles.cleanup()}
    assert "(restricted)" in targets
    assert not {"q", "t", "t/g", "followers"} & targets
