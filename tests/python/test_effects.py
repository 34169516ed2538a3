"""run_once: what a job does outside of the database, once, and what was noted of it."""

from __future__ import annotations

import asyncio
import pickle
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgq import AsyncClient, Client, Effect, EffectInterrupted, EffectState, Job, LeaseLost
from support.clock import Clock
from support.session import Connect
from support.tasks import with_client


class Outside:
    """What is outside of the database: it counts, and fails when it is told to."""

    def __init__(self, result: Any = None) -> None:
        self.result = result
        self.error: BaseException | None = None
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return self.result

    async def later(self) -> Any:
        await asyncio.sleep(0)
        return self()


@pytest.fixture
def job(mail: Client) -> Job:
    """A job that was claimed."""
    mail.admin.alter_queue("mail", backoff=timedelta(0))
    mail.enqueue("mail", {})
    [job] = mail.claim_job("mail")
    return job


def next_attempt(client: Client, job: Job) -> Job:
    """The same job, given back and claimed again."""
    assert client.nack(job.job_id, job.lease_token)
    [job] = client.claim_job("mail")
    return job


@pytest.mark.parametrize("result", [None, {"id": 1}, ["a", 2.5], "", 0, False])
def test_it_runs_once(mail: Client, job: Job, result: Any) -> None:
    send = Outside(result)
    for _ in range(3):
        assert mail.run_once(job, "mail", send) == result
        job = next_attempt(mail, job)
    assert mail.run_once(job, "mail", send, at_least_once=True) == result
    assert send.calls == 1
    assert mail.run_once(job, "receipt", send) == result
    assert send.calls == 2
    assert mail.ack(job.job_id, job.lease_token)


@pytest.mark.parametrize("error", [OSError("timeout"), KeyboardInterrupt()], ids=repr)
def test_an_error_interrupts_it(mail: Client, job: Job, error: BaseException) -> None:
    """Nobody knows how far it came, so it is run again only where that is asked for."""
    send = Outside("sent")
    send.error = error
    with pytest.raises(type(error)):
        mail.run_once(job, "mail", send)
    job = next_attempt(mail, job)
    send.error = None
    for _ in range(2):
        with pytest.raises(EffectInterrupted) as caught:
            mail.run_once(job, "mail", send)
    assert send.calls == 1
    told = caught.value
    [effect] = mail.jobs.effects("mail")
    assert (told.job_id, told.effect) == (job.job_id, "mail")
    assert (told.attempt, told.begun_at) == (1, effect.begun_at)
    assert f'effect "mail" of job {job.job_id} may have happened: attempt 1' in str(told)
    assert str(pickle.loads(pickle.dumps(told))) == str(told)
    assert mail.run_once(job, "mail", send, at_least_once=True) == "sent"
    assert send.calls == 2
    assert mail.run_once(next_attempt(mail, job), "mail", send) == "sent"
    assert send.calls == 2


@pytest.mark.parametrize("not_done", [ConnectionError, (KeyError, ConnectionError)], ids=repr)
def test_an_error_that_says_that_nothing_happened(mail: Client, job: Job, not_done: Any) -> None:
    """It is raised, and the next attempt runs it; any other error interrupts it as before."""
    send = Outside("sent")
    send.error = ConnectionRefusedError()
    with pytest.raises(ConnectionRefusedError):
        mail.run_once(job, "mail", send, not_done=not_done)
    assert mail.jobs.effects("mail") == []
    job = next_attempt(mail, job)
    send.error = OSError("timeout")
    with pytest.raises(OSError, match="timeout"):
        mail.run_once(job, "mail", send, not_done=not_done)
    with pytest.raises(EffectInterrupted):
        mail.run_once(job, "mail", send, not_done=not_done)
    assert send.calls == 2


def test_a_lost_lease(mail: Client, job: Job, clock: Clock) -> None:
    send = Outside()
    clock.advance("1 minute")
    with pytest.raises(LeaseLost):
        mail.run_once(job, "mail", send)
    [again] = mail.claim_job("mail")
    with pytest.raises(LeaseLost):
        mail.run_once(job, "mail", send)
    assert send.calls == 0
    mail.run_once(again, "mail", send)
    assert send.calls == 1


def test_a_lease_that_is_lost_meanwhile(mail: Client, job: Job, clock: Clock) -> None:
    """The result is noted all the same, and the next worker gets it."""
    send = Outside("sent")

    def slowly() -> Any:
        clock.advance("1 minute")
        [again] = mail.claim_job("mail")
        with pytest.raises(EffectInterrupted):
            mail.run_once(again, "mail", send)
        return send()

    assert mail.run_once(job, "mail", slowly) == "sent"
    assert not mail.ack(job.job_id, job.lease_token)
    clock.advance("1 minute")
    [again] = mail.claim_job("mail")
    assert mail.run_once(again, "mail", send) == "sent"
    assert send.calls == 1


def test_a_result_that_is_no_json(mail: Client, job: Job) -> None:
    """It happened, but that cannot be noted."""
    with pytest.raises(TypeError):
        mail.run_once(job, "mail", lambda: object())
    with pytest.raises(EffectInterrupted):
        mail.run_once(job, "mail", lambda: object())


@pytest.mark.parametrize("options", [{}, {"isolation_level": "serializable"}], ids=repr)
def test_on_a_connection_with_transactions(
    connect: Connect, mail: Client, job: Job, options: dict[str, str]
) -> None:
    """It commits both notes; within a transaction of the caller it does nothing."""
    connection = connect(**options)
    client = Client(connection)
    send = Outside("sent")
    connection.execute("select 1")
    with pytest.raises(psycopg.ProgrammingError, match="run_once runs transactions of its own"):
        client.run_once(job, "mail", send)
    connection.rollback()
    assert mail.jobs.effects("mail") == []

    def look() -> str:
        """The note is committed by now."""
        assert [effect.state for effect in mail.jobs.effects("mail")] == ["begun"]
        return str(send())

    assert client.run_once(job, "mail", look) == "sent"
    connection.rollback()
    assert [effect.state for effect in mail.jobs.effects("mail")] == ["finished"]


def test_the_functions_below_it(mail: Client, job: Job) -> None:
    place = (job.job_id, job.lease_token, "mail")
    begun = mail.begin_effect(*place)
    assert begun == EffectState("begun", None, 1, begun.begun_at)
    assert mail.begin_effect(*place) == EffectState("interrupted", None, 1, begun.begun_at)
    [shown] = mail.jobs.effects("mail")
    assert shown == Effect(
        "mail", job.job_id, "mail", "begun", None, 1, begun.begun_at, None, job.lease_token
    )
    assert mail.jobs.effects("nothing") == []
    assert not mail.finish_effect(job.job_id, UUID(int=0), "mail")
    assert mail.jobs.delete_effect(*place)
    assert not mail.jobs.delete_effect(*place)
    assert mail.begin_effect(*place, at_least_once=True).state == "begun"
    assert mail.finish_effect(*place, result=Jsonb([1]))
    finished = mail.begin_effect(*place)
    assert (finished.state, finished.result) == ("finished", [1])
    [shown] = mail.jobs.effects()
    assert shown.finished_at is not None


def test_asynchronously(dsn: str) -> None:
    async def tour(client: AsyncClient) -> None:
        await client.admin.create_queue("mail", backoff=timedelta(0))
        await client.enqueue("mail", {})
        [job] = await client.claim_job("mail")
        send = Outside("sent")
        send.error = ConnectionRefusedError()
        with pytest.raises(ConnectionRefusedError):
            await client.run_once(job, "mail", send.later, not_done=ConnectionRefusedError)
        send.error = None
        for _ in range(2):
            assert await client.run_once(job, "mail", send.later) == "sent"
        assert send.calls == 2
        assert [effect.state for effect in await client.jobs.effects()] == ["finished"]

    with_client(dsn, tour)


def test_asynchronously_cancelled(dsn: str) -> None:
    """It is interrupted, as by a crash, and the connection can be used."""

    async def cancel(client: AsyncClient) -> None:
        await client.admin.create_queue("mail")
        await client.enqueue("mail", {})
        [job] = await client.claim_job("mail")
        running = asyncio.Event()

        async def endless() -> None:
            running.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(client.run_once(job, "mail", endless))
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(EffectInterrupted):
            await client.run_once(job, "mail", endless)

    with_client(dsn, cancel)
