"""Many jobs of the page: filters, those that were chosen, and acts page by page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pgq import Client
from pgq.ui import _lists, _many
from support.page import Page

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 3\nValueError: no answer\n'
FIRST = {"label": "a", "error_contains": "no answer"}


def bury(client: Client, number: int, label: str = "a", error: str = "no answer") -> list[int]:
    """Dead letters of the queue mail."""
    made = client.enqueue_batch("mail", list(range(number)), labels=[label] * number)
    jobs = client.claim_job("mail", max_jobs=number)
    client.nack_batch([job.job_id for job in jobs], jobs[0].lease_token, error=error)
    return [one.job_id for one in made]


def walk(page: Page, name: str, **given: Any) -> list[int]:
    """An act page by page: how many each took."""
    after, taken = 0, []
    while after is not None:
        status, found = page.do(name, queue="mail", after_id=after, **given)
        assert status == 200, found
        taken.append(found["taken"])
        after = found["after_id"]
    return taken


@pytest.fixture
def mail(client: Client) -> None:
    client.admin.create_queue("mail", max_attempts=1)


@pytest.mark.usefixtures("mail")
def test_dead_letters_of_a_filter(page: Page, client: Client) -> None:
    def found(**given: Any) -> set[int]:
        document = page.read("dead", queue="mail", **given)
        assert not document["more"]
        assert document["next"] is None
        return {one["job_id"] for one in document["letters"]}

    first, second = set(bury(client, 3)), set(bury(client, 3, "b", "100% full"))
    between = page.read("dead", queue="mail")["letters"][3]
    assert found(label="a") == first
    assert found(label="A") == set()
    assert found(error_contains="0% f") == second
    assert found(error_contains="%") == second
    assert found(label="a", error_contains="full") == set()
    assert found(since=between["died_at"]) == second
    assert found(before=between["died_at"]) == first
    assert found(since="1h ago", before="1h ago") == set()
    assert page.ask("dead", queue="mail", since="soon")[0] == 400


@pytest.mark.usefixtures("mail")
def test_pages_of_a_filter_go_on(
    page: Page, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looks at so many, and finds none twice, and none is left out."""
    monkeypatch.setattr(_lists, "BLOCK", 20)
    monkeypatch.setattr(_lists, "LOOKED_AT", 60)
    wanted = []
    for _ in range(4):
        bury(client, 70, "b")
        wanted += bury(client, 20)
    seen: list[int] = []
    pages = 0
    after: dict[str, Any] | None = {}
    while after is not None:
        document = page.read("dead", queue="mail", label="a", **after)
        assert document["looked_at"] <= 60
        seen += [one["job_id"] for one in document["letters"]]
        pages, after = pages + 1, document["next"]
    assert pages > 4
    assert sorted(seen) == wanted


def test_unfinished_jobs_of_a_filter(page: Page, client: Client) -> None:
    client.admin.create_queue("mail")
    client.enqueue_batch("mail", list(range(300)), labels=["b"] * 300)
    late = client.enqueue("mail", 1, label="a", delay=timedelta(hours=1)).job_id
    found = page.read("jobs", queue="mail", label="a")
    assert [one["job_id"] for one in found["jobs"]] == [late]
    assert page.read("jobs", queue="mail", state="ready", label="a")["jobs"] == []
    in_time = client.get_job(late)
    assert in_time is not None
    assert in_time.due_at is not None
    due = in_time.due_at.isoformat()
    assert [one["job_id"] for one in page.read("jobs", queue="mail", since=due)["jobs"]] == [late]
    assert len(page.read("jobs", queue="mail", before=due)["jobs"]) == 50


def test_long_texts_are_cut_in_lists(page: Page, client: Client) -> None:
    client.admin.create_queue("mail", max_attempts=1, archive=True)
    [job_id] = bury(client, 1, "l" * 200, "x" * 1000)
    [letter] = page.read("dead", queue="mail")["letters"]
    assert (letter["last_error"], letter["label"]) == ("x" * 300 + "…", "l" * 200)
    assert page.read("job", job_id=job_id)["last_error"] == "x" * 1000


@pytest.mark.usefixtures("mail")
def test_the_last_line_of_an_error_comes_first(page: Page, client: Client) -> None:
    """In lists; the view of the job has all of it."""
    traced = bury(client, 1, error=TRACEBACK)[0]
    bury(client, 1, error="502 Bad Gateway\n<html>\n")
    bury(client, 1, error="once")
    found = [one["last_error"] for one in page.read("dead", queue="mail")["letters"]]
    assert found == ["ValueError: no answer", "<html>\n502 Bad Gateway", "once"]
    assert page.read("job", job_id=traced)["last_error"] == TRACEBACK


@pytest.mark.usefixtures("mail")
def test_dead_letters_by_error(page: Page, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the last line of a traceback, as the filter finds them."""
    first = bury(client, 2, error=TRACEBACK)
    bury(client, 1, error="full")
    second = bury(client, 1, error=TRACEBACK.replace("line 3", "line 4"))
    died = {one["job_id"]: one["died_at"] for one in page.read("dead", queue="mail")["letters"]}
    found = page.read("errors", queue="mail")
    assert found["whole"] is True
    traced, full = found["errors"]
    assert (traced["error"], traced["dead_letters"]) == ("ValueError: no answer", 3)
    assert (traced["oldest_at"], traced["newest_at"]) == (died[first[0]], died[second[0]])
    assert (full["error"], full["dead_letters"]) == ("full", 1)
    shown = page.read("dead", queue="mail", error_contains=traced["error"])["letters"]
    assert [one["job_id"] for one in shown] == [*first, *second]
    monkeypatch.setattr(_lists, "GROUPED", 2)
    found = page.read("errors", queue="mail")
    assert found["whole"] is False
    assert [one["dead_letters"] for one in found["errors"]] == [1, 1]


def test_jobs_of_a_key(page: Page, client: Client) -> None:
    """In an ordered queue; the newest first."""
    client.admin.create_queue("mail", ordered=True)
    client.admin.create_queue("other")
    ids = [one.job_id for one in client.enqueue_batch("mail", [1, 2, 3], keys=["a", "b", "a"])]
    found = page.read("jobs", queue="mail", key="a")["jobs"]
    assert [one["job_id"] for one in found] == [ids[2], ids[0]]
    found = page.read("jobs", queue="mail", key="a", state="waiting")["jobs"]
    assert [one["job_id"] for one in found] == [ids[2]]
    status, document = page.ask("jobs", queue="other", key="a")
    assert (status, "not ordered" in document["message"]) == (400, True)


def test_due_and_leased_until_are_two_times(page: Page, client: Client) -> None:
    client.admin.create_queue("mail")
    client.enqueue_batch("mail", [1, 2])
    [job] = client.claim_job("mail")
    waits, leased = page.read("jobs", queue="mail")["jobs"]
    assert leased["job_id"] == job.job_id
    assert (leased["due_at"], waits["leased_until"]) == (None, None)
    assert leased["leased_until"]
    assert waits["due_at"]


def test_finished_jobs(page: Page, client: Client) -> None:
    """The newest first, so many as are asked for, with their outcomes."""
    client.admin.create_queue("mail", archive=True)
    client.admin.create_queue("other", archive=False)
    client.enqueue_batch("mail", list(range(60)))
    for job in client.claim_job("mail", max_jobs=59):
        client.ack(job.job_id, job.lease_token)
    last = client.jobs.peek_jobs("mail", state="ready")[0].job_id
    client.cancel_job(last)
    found = page.read("finished", queue="mail")
    assert len(found["jobs"]) == 50
    assert found["archives"] is True
    assert (found["jobs"][0]["job_id"], found["jobs"][0]["outcome"]) == (last, "cancelled")
    assert found["jobs"][1]["outcome"] == "acked"
    ended = [one["ended_at"] for one in found["jobs"]]
    assert ended == sorted(ended, reverse=True)
    assert len(page.read("finished", queue="mail", size=200)["jobs"]) == 60
    assert page.read("finished", queue="other") == {"jobs": [], "archives": False}
    assert page.ask("finished", queue="mail", size=5)[0] == 400
    assert page.ask("finished", queue="none")[0] == 404


def test_attempts_and_the_result(page: Page, client: Client) -> None:
    client.connection.execute("select pgq.create_queue('mail', keep_results => true)")
    job_id = client.enqueue("mail", 1).job_id
    [job] = client.claim_job("mail")
    client.nack(job_id, job.lease_token, delay=timedelta(0), error="no answer")
    found = page.read("job", job_id=job_id)
    [attempt] = found["attempts"]
    assert (attempt["attempt"], attempt["outcome"], attempt["error"]) == (1, "failed", "no answer")
    [job] = client.claim_job("mail")
    client.archive_job(job_id, job.lease_token, result={"sent": True})
    found = page.read("job", job_id=job_id)
    assert (found["ended"]["state"], found["ended"]["result"]) == ("finished", '{"sent": true}')
    assert len(found["attempts"]) == 1


def test_a_job_whose_result_is_not_kept(page: Page, client: Client) -> None:
    """Its attempts are shown where there are some."""
    client.admin.create_queue("mail")
    tried, done = (client.enqueue("mail", n).job_id for n in range(2))
    jobs = client.claim_job("mail", max_jobs=2)
    client.nack(tried, jobs[0].lease_token, error="no answer")
    client.cancel_job(tried)
    client.ack(done, jobs[0].lease_token)
    found = page.read("job", job_id=tried)
    assert (found["ended"], len(found["attempts"])) == ({"state": "ended"}, 1)
    status, document = page.ask("job", job_id=done)
    assert (status, "keep_results" in document["hint"]) == (404, True)


def test_a_leased_job_that_was_chosen_stays(page: Page, client: Client) -> None:
    client.admin.create_queue("mail")
    ids = [client.enqueue("mail", n, delay=timedelta(hours=n)).job_id for n in range(4)]
    [job] = client.claim_job("mail")
    assert job.job_id == ids[0]
    said = page.act("retry_chosen", queue="mail", job_ids=[ids[0], str(ids[1]), ids[1]])
    assert said == "1 job is due now; 1 not: they do not wait for a time"
    said = page.act("cancel_chosen", queue="mail", job_ids=ids[:3])
    assert said == "cancelled 2 jobs; 1 not: a worker has them, or they have ended"
    assert client.extend_lease(ids[0], job.lease_token)
    assert client.get_job(ids[3]) is not None
    assert page.act("cancel_chosen", queue="mail", job_ids=[ids[3]]) == "cancelled 1 job"


@pytest.mark.usefixtures("mail")
def test_dead_letters_that_were_chosen(page: Page, client: Client) -> None:
    ids = bury(client, 5)
    client.jobs.redrive("mail", job_id=ids[0])
    said = page.act("redrive_chosen", queue="mail", job_ids=ids[:3])
    assert said.startswith("2 dead letters are jobs again; 1 not: they are no dead letters")
    said = page.act("purge_chosen", queue="mail", job_ids=ids[:4])
    assert said == "removed 1 dead letter; 3 not: they are no dead letters any more"
    assert client.monitor.queue_stats("mail")[0].dead == 1
    assert client.monitor.queue_stats("mail")[0].ready == 3


@pytest.mark.usefixtures("mail")
@pytest.mark.parametrize("given", [None, [], "1", [1.5], ["x"], list(range(1001)), {"1": 2}])
def test_ids_that_are_none(page: Page, given: Any) -> None:
    assert page.do("cancel_chosen", queue="mail", job_ids=given)[0] == 400


@pytest.mark.usefixtures("mail")
@pytest.mark.parametrize("name", ["redrive", "purge"])
def test_all_of_a_filter(
    page: Page, client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What was counted is what is taken, in pages, and the others stay."""
    monkeypatch.setattr(_many, "AT_ONCE", 4)
    bury(client, 10)
    others = {*bury(client, 3, "b"), *bury(client, 3, error="full")}
    found = page.read("matching", act=name, queue="mail", **FIRST)
    assert (found["taken"], found["after_id"]) == (10, None)
    assert client.monitor.queue_stats("mail")[0].dead == 16
    assert walk(page, f"{name}_page", **FIRST) == [4, 4, 2]
    assert {one.job_id for one in client.jobs.fetch_dead_letters("mail")} == others
    assert client.monitor.queue_stats("mail")[0].ready == (10 if name == "redrive" else 0)


def test_all_unfinished_of_a_filter(page: Page, client: Client) -> None:
    """A worker keeps what it has; no more are taken than was said."""
    client.admin.create_queue("mail")
    client.enqueue_batch("mail", [1, 2, 3], labels=["a"] * 3)
    client.enqueue("mail", 4, label="a", delay=timedelta(hours=1))
    client.enqueue("mail", 5, label="b", delay=timedelta(hours=1))
    [job] = client.claim_job("mail")
    assert page.read("matching", act="retry", queue="mail", label="a")["taken"] == 1
    assert page.read("matching", act="cancel", queue="mail", label="a")["taken"] == 3
    assert walk(page, "retry_page", label="a") == [1]
    assert page.do("cancel_page", queue="mail", label="a", max_jobs=2)[1]["taken"] == 2
    assert walk(page, "cancel_page", label="a") == [1]
    assert client.extend_lease(job.job_id, job.lease_token)
    assert [one.state for one in client.jobs.peek_jobs("mail")] == ["leased", "delayed"]


@pytest.mark.usefixtures("mail")
def test_no_filter_is_not_all(page: Page, client: Client) -> None:
    bury(client, 2)
    for name in ("redrive", "purge", "cancel", "retry"):
        for status, document in (
            page.do(f"{name}_page", queue="mail", after_id=0),
            page.ask("matching", act=name, queue="mail", label=""),
        ):
            assert (status, "a filter is needed" in document["message"]) == (400, True)
    assert page.ask("matching", act="drop", queue="mail", label="a")[0] == 400
    assert page.ask("matching", act="cancel", queue="none", label="a")[0] == 404
    assert page.do("redrive_page", queue="mail", label="a", max_jobs=0)[0] == 400
    assert client.monitor.queue_stats("mail")[0].dead == 2


@pytest.mark.usefixtures("mail")
def test_an_age_is_that_of_the_first_step(page: Page, client: Client) -> None:
    """The filter comes back with times in their place, so that all pages mean the same."""
    found = page.read("matching", act="purge", queue="mail", before="10m ago")["filter"]
    assert found["label"] is None
    assert (
        page.read("matching", act="purge", queue="mail", before=found["before"])["filter"] == found
    )


def test_only_showing_counts_and_does_nothing(dsn: str, client: Client) -> None:
    client.admin.create_queue("mail", max_attempts=1)
    ids = bury(client, 2)
    with Page(dsn, read_only=True) as page:
        for name in ("redrive", "purge"):
            assert page.read("matching", act=name, queue="mail", label="a")["taken"] == 2
            for status, _ in (
                page.do(f"{name}_page", queue="mail", label="a"),
                page.do(f"{name}_chosen", queue="mail", job_ids=ids),
            ):
                assert status == 403
    assert client.monitor.queue_stats("mail")[0].dead == 2
