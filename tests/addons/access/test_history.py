"""Who sees the attempts of a job of a restricted queue, and what has become of it."""

from __future__ import annotations

import pytest

from addons.access.conftest import STRANGER, acting, role_of
from support.calls import Arguments
from support.session import Session

SHOWN = {
    STRANGER: (False, False),
    role_of("monitor"): (False, False),
    role_of("publish"): (False, True),
    role_of("consume"): (True, True),
    role_of("admin"): (True, True),
}


@pytest.mark.parametrize("role", SHOWN)
def test_who_sees_what(role: str, roles: Session, known: Arguments) -> None:
    """Attempts with their errors who may consume; what has become of it also who may enqueue."""
    with acting(roles, role):
        attempts = roles.job_history(job_id=known["$dead"])
        found = roles.get_result(job_id=known["$dead"])
        leased = roles.get_result(job_id=known["$job"])
    sees_attempts, sees_results = SHOWN[role]
    assert [attempt.outcome for attempt in attempts] == ["failed"] * sees_attempts
    assert (found.state, leased.state) == (("failed", "leased") if sees_results else ("gone",) * 2)
    assert (found.ended_at is not None) == sees_results


@pytest.mark.parametrize("level", ["publish", "consume"])
def test_a_job_that_has_ended(level: str, roles: Session, known: Arguments) -> None:
    """What it was given as its result is for who enqueued it."""
    with roles.transaction(force_rollback=True):
        roles.alter_queue(queue="q", keep_results=True)
        roles.cancel_job(job_id=known["$job"])
        for role, state in ((role_of(level), "cancelled"), (STRANGER, "gone")):
            roles.execute(f"set local role {role}")
            assert roles.get_result(job_id=known["$job"]).state == state
            roles.execute("reset role")
