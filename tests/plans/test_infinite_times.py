"""A condition that no index serves bears infinity: up to 16, nothing is subtracted from that."""

from __future__ import annotations

from support.session import Session


def test_a_blocked_job_is_not_dead_lettered(connection: Session) -> None:
    connection.create_queue(queue="q", ordered=True)
    for payload in (1, 2):
        connection.enqueue(queue="q", payload=payload, key="k")
    [blocked] = connection.execute(
        "select job_id from pgq.job where visible_at = 'infinity'"
    ).fetchone() or [None]
    [moved] = connection.execute(
        "select pgq._dead_letter_exhausted(array[%s::bigint], 0, pgq._clock())", [blocked]
    ).fetchone() or [None]
    assert moved == 0
