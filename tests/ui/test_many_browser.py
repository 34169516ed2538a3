"""Many jobs at once, as somebody does it in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from playwright.sync_api import Locator, Route, expect
from playwright.sync_api import Page as Tab
from psycopg.conninfo import make_conninfo

from pgq import Client
from pgq.ui import _many
from support.page import EVIL, Page, go

pytestmark = pytest.mark.slow


def bury(client: Client, number: int, label: str = "a", error: str = "no answer") -> list[int]:
    """Dead letters of the queue mail."""
    made = client.enqueue_batch("mail", [0] * number, labels=[label] * number)
    jobs = client.claim_job("mail", max_jobs=number)
    client.nack_batch([job.job_id for job in jobs], jobs[0].lease_token, error=error)
    return [one.job_id for one in made]


def rows(tab: Tab, name: str) -> Locator:
    return tab.get_by_role("region", name=name).locator("tbody tr")


def still(tab: Tab) -> None:
    """It asks no more by itself: what is seen stays as it is."""
    tab.get_by_label("refresh").select_option("0")


@pytest.fixture
def mail(client: Client) -> None:
    client.admin.create_queue("mail", max_attempts=1)


@pytest.mark.usefixtures("mail")
def test_thousands_of_dead_letters_by_filter(tab: Tab, page: Page, client: Client) -> None:
    """First it says how many, then it goes page by page, and leaves the others."""
    for _ in range(5):
        bury(client, 5000)
    others = bury(client, 7, error="full")
    go(tab, page, "queues/mail/dead")
    expect(tab.get_by_role("button", name="Redrive all that match…")).to_be_disabled()
    tab.get_by_label("error contains").fill("no answer")
    tab.get_by_role("button", name="Show").click()
    expect(tab).to_have_url(re.compile(r"#/queues/mail/dead\?error_contains=no\+answer$"))
    expect(tab.get_by_role("button", name="Remove all…")).to_have_count(0)
    tab.get_by_role("button", name="Redrive all that match…").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text("Queue mail: error contains “no answer”")
    expect(dialog).to_contain_text("These are 25,000 dead letters.")
    assert client.monitor.queue_stats("mail")[0].dead == 25_007
    pages = []
    tab.on("request", lambda one: pages.append(one) if "redrive_page" in one.url else None)
    dialog.get_by_role("button", name="Redrive 25,000 dead letters").click()
    expect(dialog.get_by_role("progressbar")).to_be_visible()
    expect(tab.get_by_role("status")).to_have_text("25,000 dead letters are jobs again")
    expect(dialog).to_have_count(0)
    assert len(pages) == 13
    assert {one.job_id for one in client.jobs.fetch_dead_letters("mail")} == set(others)
    expect(tab.get_by_text("no dead letters of this filter here")).to_be_visible()


@pytest.mark.usefixtures("mail")
def test_it_is_stopped_and_goes_on(
    tab: Tab, page: Page, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_many, "AT_ONCE", 10)
    bury(client, 30)
    held: list[Route] = []
    tab.route("**/api/act/purge_page", lambda route: held.append(route))
    go(tab, page, "queues/mail/dead?label=a")
    tab.get_by_role("button", name="Remove all that match…").click()
    dialog = tab.get_by_role("dialog")
    dialog.get_by_role("button", name="Remove 30 dead letters").click()
    expect(dialog.get_by_role("button", name="Stop")).to_be_focused()
    dialog.get_by_role("button", name="Stop").click()
    held[0].continue_()
    expect(dialog).to_contain_text("Stopped: 10 dead letters are removed, of 30 dead letters.")
    assert client.monitor.queue_stats("mail")[0].dead == 20
    tab.unroute("**/api/act/purge_page")
    trouble = {"message": "somebody was first", "sqlstate": "40001"}
    tab.route("**/api/act/purge_page", lambda route: route.fulfill(status=400, json=trouble))
    dialog.get_by_role("button", name="Go on").click()
    expect(dialog.get_by_role("alert")).to_contain_text("somebody was first")
    tab.unroute("**/api/act/purge_page")
    dialog.get_by_role("button", name="Go on").click()
    expect(tab.get_by_role("status")).to_have_text("30 dead letters are removed")
    assert client.monitor.queue_stats("mail")[0].dead == 0


@pytest.mark.usefixtures("mail")
def test_a_count_that_takes_long_says_at_least(tab: Tab, page: Page, client: Client) -> None:
    bury(client, 1)

    def count(route: Route) -> None:
        tab.wait_for_timeout(300)
        filters = '{"label": "a", "error_contains": null, "since": null, "before": null}'
        body = f'{{"taken": 1000, "after_id": 9, "filter": {filters}}}'
        route.fulfill(body=body, content_type="application/json")

    tab.route("**/api/matching?*", count)
    go(tab, page, "queues/mail/dead?label=a")
    tab.get_by_role("button", name="Redrive all that match…").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text(re.compile(r"Counting: [\d,]+ dead letters until now"))
    button = dialog.get_by_role("button", name=re.compile(r"Redrive at least \d+,000 dead letters"))
    expect(button).to_be_visible()
    tab.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert client.monitor.queue_stats("mail")[0].dead == 1


@pytest.mark.usefixtures("mail")
def test_texts_of_others_stay_texts(tab: Tab, page: Page, client: Client) -> None:
    """In the filter, in lists, in attempts, in the dialog."""
    [job_id] = bury(client, 1, "<b>bold</b>", EVIL + "x" * 400)
    go(tab, page, f"queues/mail/dead?error_contains={quote(EVIL)}&label={quote('<b>bold</b>')}")
    expect(tab.get_by_label("error contains")).to_have_value(EVIL)
    expect(rows(tab, "dead letters")).to_contain_text("<img src=x onerror=")
    expect(rows(tab, "dead letters")).to_contain_text("<b>bold</b>")
    tab.get_by_role("button", name="Redrive all that match…").click()
    expect(tab.get_by_role("dialog")).to_contain_text("<img src=x onerror=")
    expect(tab.get_by_role("dialog")).to_contain_text("These are 1 dead letter.")
    tab.keyboard.press("Escape")
    go(tab, page, f"jobs/{job_id}")
    attempts = rows(tab, "attempts")
    expect(attempts.locator("summary")).to_contain_text("<img src=x onerror=")
    expect(attempts.locator("pre")).to_be_hidden()
    attempts.locator("summary").focus()
    tab.keyboard.press("Enter")
    expect(attempts.locator("pre")).to_have_text(EVIL + "x" * 400)
    assert tab.evaluate("window.caught") is None
    assert tab.evaluate("document.images.length") == 0


def test_a_job_that_is_claimed_meanwhile_stays(tab: Tab, page: Page, client: Client) -> None:
    client.admin.create_queue("mail")
    first, second, third = (client.enqueue("mail", n).job_id for n in range(3))
    go(tab, page, "queues/mail/jobs")
    expect(rows(tab, "jobs")).to_have_count(3)
    still(tab)
    tab.get_by_label(f"choose job {first}").check()
    tab.get_by_label(f"choose job {second}").check()
    expect(tab.get_by_text("2 chosen")).to_be_visible()
    [job] = client.claim_job("mail")
    assert job.job_id == first
    tab.get_by_role("button", name="Cancel…").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text("Cancel 2 jobs of mail?")
    dialog.get_by_role("button", name="Cancel the jobs").click()
    expect(tab.get_by_role("status")).to_have_text(
        "cancelled 1 job; 1 not: a worker has them, or they have ended"
    )
    expect(rows(tab, "jobs")).to_have_count(2)
    expect(tab.get_by_label(f"choose job {first}")).to_have_count(0)  # it is leased
    expect(tab.get_by_text("0 chosen")).to_be_visible()
    assert client.extend_lease(first, job.lease_token)
    assert client.get_job(third) is not None


@pytest.mark.usefixtures("mail")
def test_somebody_else_redrives_at_the_same_time(tab: Tab, page: Page, client: Client) -> None:
    ids = bury(client, 4)
    go(tab, page, "queues/mail/dead?label=a")
    still(tab)
    tab.get_by_label("all shown").check()
    expect(tab.get_by_text("4 chosen")).to_be_visible()
    tab.get_by_label(f"choose job {ids[3]}").uncheck()
    tab.get_by_role("button", name="Redrive chosen…").click()
    client.jobs.redrive("mail", job_id=ids[0])
    tab.get_by_role("dialog").get_by_role("button", name="Redrive").click()
    expect(tab.get_by_role("status")).to_contain_text("2 dead letters are jobs again; 1 not")
    bury(client, 3)  # some of the others, which died again
    tab.keyboard.press("r")
    expect(rows(tab, "dead letters")).to_have_count(4)
    tab.get_by_role("button", name="Redrive all that match…").click()
    button = tab.get_by_role("dialog").get_by_role("button", name="Redrive 4 dead letters")
    expect(button).to_be_focused()
    client.jobs.redrive("mail", job_id=ids[3])
    button.press("Enter")
    expect(tab.get_by_role("status")).to_have_text("3 dead letters are jobs again")


@pytest.mark.usefixtures("mail")
def test_no_more_than_was_counted(
    tab: Tab, page: Page, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What dies between the count and the act is not among what was confirmed."""
    monkeypatch.setattr(_many, "AT_ONCE", 4)
    bury(client, 6)
    go(tab, page, "queues/mail/dead?label=a")
    tab.get_by_role("button", name="Remove all that match…").click()
    button = tab.get_by_role("dialog").get_by_role("button", name="Remove 6 dead letters")
    expect(button).to_be_visible()
    late = bury(client, 3)
    button.click()
    expect(tab.get_by_role("status")).to_have_text("6 dead letters are removed")
    assert [one.job_id for one in client.jobs.fetch_dead_letters("mail")] == late


def test_jobs_that_wait_are_retried(tab: Tab, page: Page, client: Client) -> None:
    """With the keyboard alone."""
    client.admin.create_queue("mail")
    for n in range(3):
        client.enqueue("mail", n, delay=timedelta(hours=1), label="a")
    client.enqueue("mail", 3, delay=timedelta(hours=1), label="b")
    go(tab, page, "queues/mail/jobs/delayed?label=a")
    expect(rows(tab, "jobs")).to_have_count(3)
    still(tab)
    keys = tab.keyboard
    tab.get_by_label("all shown").focus()
    keys.press("Space")
    expect(tab.get_by_text("3 chosen")).to_be_visible()
    keys.press("Tab")
    keys.press("Enter")
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text("Retry 3 jobs of mail now?")
    keys.press("Escape")
    expect(dialog).to_have_count(0)
    tab.get_by_label("all shown").focus()
    keys.press("Space")
    tab.get_by_role("checkbox").nth(1).focus()
    keys.press("Space")
    expect(tab.get_by_label("all shown")).to_have_js_property("indeterminate", True)
    tab.get_by_role("button", name="Retry now…").focus()
    keys.press("Enter")
    expect(dialog).to_contain_text("Retry 1 job of mail now?")
    keys.press("Enter")
    expect(tab.get_by_role("status")).to_have_text("1 job is due now")
    tab.get_by_role("button", name="Retry all that match…").focus()
    keys.press("Enter")
    expect(dialog.get_by_role("button", name="Retry 2 jobs")).to_be_focused()
    keys.press("Enter")
    expect(tab.get_by_role("status")).to_have_text("2 jobs are due now")
    assert client.monitor.queue_stats("mail")[0].ready == 3


@pytest.mark.usefixtures("mail")
def test_second_pages_keep_the_filter(tab: Tab, page: Page, client: Client) -> None:
    bury(client, 60, "b")
    bury(client, 60)
    go(tab, page, "queues/mail/dead?label=b")
    expect(rows(tab, "dead letters")).to_have_count(50)
    tab.get_by_label("all shown").check()
    tab.get_by_role("button", name="Next page").click()
    expect(rows(tab, "dead letters")).to_have_count(10)
    expect(tab.get_by_text("0 chosen")).to_be_visible()
    assert {one.split()[-2] for one in rows(tab, "dead letters").all_inner_texts()} == {"b"}
    tab.get_by_role("button", name="Previous page").click()
    expect(rows(tab, "dead letters")).to_have_count(50)
    tab.get_by_role("link", name="No filter").click()
    expect(tab.get_by_label("label", exact=True)).to_have_value("")
    tab.go_back()
    expect(tab.get_by_label("label", exact=True)).to_have_value("b")
    go(tab, page, "queues/mail/jobs/delayed?label=b")
    tab.get_by_label("state").select_option("ready")
    expect(tab).to_have_url(re.compile(r"#/queues/mail/jobs/ready\?label=b$"))


def test_finished_jobs_and_their_results(tab: Tab, page: Page, client: Client) -> None:
    client.connection.execute(
        "select pgq.create_queue('mail', archive => true, keep_results => true)"
    )
    for n in range(60):
        client.enqueue("mail", n)
    jobs = client.claim_job("mail", max_jobs=60)
    client.archive_job(jobs[0].job_id, jobs[0].lease_token, outcome="sent", result={"to": EVIL})
    client.ack_batch([job.job_id for job in jobs[1:]], jobs[0].lease_token)
    go(tab, page, "queues/mail")
    tab.get_by_role("link", name="Finished", exact=True).click()
    expect(rows(tab, "finished jobs")).to_have_count(50)
    expect(tab.get_by_text("as far as the end of the archive has them")).to_be_visible()
    tab.get_by_label("at most").select_option("200")
    expect(rows(tab, "finished jobs")).to_have_count(60)
    expect(rows(tab, "finished jobs").last).to_contain_text("sent")
    rows(tab, "finished jobs").last.get_by_role("link").click()
    expect(tab.get_by_text("It has ended: finished")).to_be_visible()
    expect(tab.locator("pre")).to_contain_text("<img src=x onerror=")
    assert tab.evaluate("document.images.length") == 0


@pytest.fixture
def watcher(dsn: str, client: Client) -> Iterator[str]:
    """The connection string of a role that may work on the queue mail, and no more."""
    name = "pgq_test_watcher"
    connection = client.connection
    try:
        connection.execute(f"create role {name} login password 'sesame'")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    connection.execute(f"grant usage on schema pgq to {name}")
    connection.execute(f"grant execute on all functions in schema pgq to {name}")
    try:
        yield make_conninfo(dsn, user=name, password="sesame")
    finally:
        connection.execute(f"drop owned by {name}")
        connection.execute(f"drop role {name}")


def test_a_role_without_rights(client: Client, watcher: str, browser: Any) -> None:
    """Of what it lost after the page was opened, it gets the message of the database."""
    name = "pgq_test_watcher"
    client.admin.create_queue("mail", max_attempts=1, restricted=True)
    client.admin.grant_access(name, "admin", queue="mail")
    bury(client, 2)
    context = browser.new_context()
    tab = context.new_page()
    with Page(watcher) as page:
        tab.goto(page.url)
        expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
        go(tab, page, "queues/mail/dead?label=a")
        tab.get_by_label("all shown").check()
        expect(tab.get_by_role("button", name="Redrive chosen…")).to_be_enabled()
        client.admin.grant_access(name, "consume", queue="mail")
        client.admin.revoke_access(name, "admin", queue="mail")
        for name in ("Redrive chosen…", "Remove all that match…"):
            tab.get_by_role("button", name=name).click()
            dialog = tab.get_by_role("dialog")
            if name == "Redrive chosen…":
                dialog.get_by_role("button", name="Redrive").click()
            expect(dialog.get_by_role("alert")).to_contain_text("42501")
            expect(dialog.get_by_role("button", name=re.compile("^Go on|^Remove"))).to_have_count(0)
            tab.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
        context.close()
    assert client.monitor.queue_stats("mail")[0].dead == 2
