"""What views show of jobs, errors, workers and findings, as somebody sees it in a real browser."""

from __future__ import annotations

import re
import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Locator, expect
from playwright.sync_api import Page as Tab

from pgq import Client
from pgq.worker import Worker
from support.page import Page, go
from support.waiting import wait_until
from support.working import working

pytestmark = pytest.mark.slow

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 3\nValueError: no answer\n'


def rows(tab: Tab, name: str) -> Locator:
    return tab.get_by_role("region", name=name).locator("tbody tr")


def bury(client: Client, *errors: str) -> list[int]:
    """Dead letters of the queue mail, each with its error."""
    client.admin.create_queue("mail", max_attempts=1)
    client.enqueue_batch("mail", list(range(len(errors))))
    jobs = client.claim_job("mail", max_jobs=len(errors))
    for job, error in zip(jobs, errors, strict=True):
        client.nack(job.job_id, job.lease_token, error=error)
    return [job.job_id for job in jobs]


def test_dead_letters_by_error(tab: Tab, page: Page, client: Client) -> None:
    ids = bury(client, TRACEBACK, "full", TRACEBACK)
    go(tab, page, "queues/mail")
    tab.get_by_role("link", name="Errors", exact=True).click()
    expect(rows(tab, "errors")).to_have_count(2)
    expect(rows(tab, "errors").first).to_contain_text(
        re.compile(r"ValueError: no answer\s*2\s*\d+s ago\s*\d+s ago")
    )
    tab.get_by_role("link", name="ValueError: no answer").click()
    expect(tab.get_by_label("error contains")).to_have_value("ValueError: no answer")
    expect(rows(tab, "dead letters")).to_have_count(2)
    shown = rows(tab, "dead letters").first.locator(".lines", has_text="ValueError")
    expect(shown).to_have_text("ValueError: no answer")
    expect(shown).to_have_css("-webkit-line-clamp", "2")
    go(tab, page, f"jobs/{ids[0]}")
    expect(tab.locator("section", has_text="Last error").locator("pre").first).to_have_text(
        TRACEBACK
    )


def test_the_worker_of_a_job(tab: Tab, page: Page, dsn: str, client: Client) -> None:
    """As its heartbeat said; of a job that none has named, the workers of the queue."""
    client.admin.create_queue("mail")
    named, unnamed = (client.enqueue("mail", n).job_id for n in range(2))
    worker = Worker(dsn, concurrency=1, heartbeat=0.1)
    taken, end = threading.Event(), threading.Event()

    @worker.handler("mail")
    def handle(_: Any) -> None:
        taken.set()
        end.wait()

    with working(worker):
        try:
            assert taken.wait(30)
            client.claim_job("mail")
            go(tab, page, f"jobs/{named}")
            [name] = [one.worker for one in client.wait(lambda c: c.monitor.list_workers())]
            said = tab.locator("p", has_text="Worker:")
            expect(said).to_contain_text(
                re.compile(f"Worker: {re.escape(name)}, as it said .* ago")
            )
            go(tab, page, f"jobs/{unnamed}")
            expect(said).to_have_text(f"Worker: not known; workers of this queue: {name}")
            go(tab, page, "queues/mail/jobs/leased")
            expect(rows(tab, "jobs").first).to_contain_text(name)
            expect(rows(tab, "jobs").last).to_contain_text("not known")
            go(tab, page, f"jobs/{named}")
            tab.get_by_role("link", name=name).click()
            expect(rows(tab, "workers")).to_have_count(1)
        finally:
            end.set()


def test_due_and_leased_until(tab: Tab, page: Page, client: Client) -> None:
    """Two values with two names: a leased job has the one, a waiting job the other."""
    client.admin.create_queue("mail")
    leased, waits = (client.enqueue("mail", n).job_id for n in range(2))
    client.claim_job("mail")
    figures = tab.locator("dl.settings dt")
    go(tab, page, f"jobs/{leased}")
    expect(figures.get_by_text("leased until", exact=True)).to_be_visible()
    expect(figures.get_by_text("due", exact=True)).to_have_count(0)
    go(tab, page, f"jobs/{waits}")
    expect(figures.get_by_text("due", exact=True)).to_be_visible()
    expect(figures.get_by_text("leased until", exact=True)).to_have_count(0)
    go(tab, page, "queues/mail/jobs")
    for job, shown, other in ((leased, "leased until", "due"), (waits, "due", "leased until")):
        row = rows(tab, "jobs").filter(has=tab.get_by_role("link", name=str(job), exact=True))
        expect(row.locator(f"td[data-title='{shown}']")).to_have_text(re.compile(r"\d+s"))
        expect(row.locator(f"td[data-title='{other}']")).to_have_text("")


def test_findings_lead_to_what_they_are_about(tab: Tab, page: Page, client: Client) -> None:
    """Queues, jobs, groups, topics and schedules."""
    bury(client, "full")
    client.admin.create_queue("slow")
    job = client.enqueue("slow", 1).job_id
    client.claim_job("slow", lease=timedelta(days=1))
    client.admin.create_topic("t", partitions=1)
    client.admin.create_group("t", "g")
    client.publish("t", 1)
    client.poll("t", "g", lease=timedelta(days=1))
    client.schedules.create_schedule("late", queue="slow", payload=1, every=timedelta(hours=1))
    client.connection.execute("update pgq.schedule set next_at = now() - interval '1 hour'")
    go(tab, page, "health")
    for finding, name, place in (
        ("queue mail has 1 dead letter", "mail", "queues/mail/dead"),
        (f"job {job} of queue slow is leased", f"job {job}", f"jobs/{job}"),
        (f"job {job} of queue slow is leased", "slow", "queues/slow"),
        ("group g of topic t, partition 0, is leased", "g", "groups/t/g"),
        ("group g of topic t, partition 0, is leased", "t", "topics/t"),
        ("schedule late was due", "late", "schedules?only=late"),
    ):
        row = rows(tab, "findings").filter(has_text=finding)
        link = row.get_by_role("link", name=name, exact=True)
        expect(link).to_have_attribute("href", f"#/{place}")
    link.click()
    expect(rows(tab, "schedules")).to_contain_text("late")
    expect(tab.get_by_label("filter schedules")).to_have_value("late")


def test_jobs_are_searched(tab: Tab, page: Page, client: Client) -> None:
    client.admin.create_queue("mail", ordered=True)
    ids = [one.job_id for one in client.enqueue_batch("mail", [1, 2, 3], keys=["a", "b", "a"])]
    go(tab, page, "queues/mail/jobs")
    expect(tab.get_by_text("in the order in which claims look at them")).to_be_visible()
    tab.get_by_label("key", exact=True).fill("a")
    tab.get_by_role("button", name="Show").click()
    expect(rows(tab, "jobs")).to_have_count(2)
    expect(rows(tab, "jobs").first).to_contain_text(str(ids[2]))
    expect(tab.get_by_text("Searched the newest 100,000 jobs")).to_be_visible()
    tab.get_by_label("job", exact=True).fill(f" {ids[1]} ")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name=f"Job {ids[1]}")).to_be_visible()
    expect(tab.get_by_text("A job of queue mail")).to_be_visible()


def test_curves_say_since_when(tab: Tab, page: Page, client: Client) -> None:
    client.admin.create_queue("mail")
    go(tab, page, "queues/mail")
    began = tab.evaluate("(at) => new Date(at * 1000).toLocaleTimeString('en-GB').slice(0, 5)",
                         page.read("history", kind="all", name="all")["began"])  # fmt: skip
    said = tab.get_by_text(f"since {began}, when this page was started")
    expect(said.first).to_be_visible(timeout=60_000)
    # an hour later the curves begin at the oldest look that is remembered
    hour_ago = datetime.now().timestamp() - 3600
    document = {
        "began": hour_ago - 60, "times": [hour_ago, hour_ago + 5],
        "figures": {"ready": [1, 1], "finished_per_second": [1, 1]},
    }  # fmt: skip
    tab.route("**/api/history?*", lambda route: route.fulfill(json=document))
    at = datetime.fromtimestamp(hour_ago).strftime("%H:%M")
    expect(tab.get_by_text(f"since {at}, the last hour").first).to_be_visible()


@pytest.mark.parametrize(("sign", "word"), [("≈", "estimates"), ("≥", "lower bounds")])
def test_figures_that_were_not_counted(
    tab: Tab, page: Page, client: Client, sign: str, word: str
) -> None:
    client.admin.create_queue("mail")
    wait_until(lambda: page.read("overview")["queues"])
    seen, queue = page.read("overview"), page.read("queue", queue="mail")
    seen["queues"][0] |= {"estimated": sign, "ready": 10_000}
    tab.route("**/api/overview", lambda route: route.fulfill(json=seen))
    tab.route("**/api/queue?*", lambda route: route.fulfill(json={**queue, "estimated": sign}))
    go(tab, page, "queues")
    expect(rows(tab, "queues")).to_contain_text(word)
    go(tab, page, "queues/mail")
    expect(tab.get_by_text(f"These are {word}: the jobs are too many to count.")).to_be_visible()
    go(tab, page, "")
    expect(tab.locator(".figures div", has_text="ready jobs")).to_contain_text(f"{sign} 10,000")
