"""The page as somebody sees and uses it, in a real browser."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, expect
from playwright.sync_api import Page as Tab

from pgq import Client
from support.page import EVIL, TOKEN, Page, go

pytestmark = pytest.mark.slow


def test_the_token_is_gone_from_the_address(open_tab: Any, page: Page) -> None:
    """And stays with the browser: another tab has it, other people's browsers have not."""
    tab = open_tab()
    expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    assert tab.url == f"{page.address}/#/"
    other = tab.context.new_page()
    other.goto(f"{page.address}/#/queues")
    expect(other.get_by_text("no queues")).to_be_visible()
    assert tab.context.cookies() == []
    stranger = open_tab(f"{page.address}/#/queues")
    field = stranger.get_by_label("address or token")
    expect(field).to_be_visible()
    field.fill("wrong")
    field.press("Enter")
    expect(field).to_be_visible()
    field.fill(page.url)
    field.press("Enter")
    expect(stranger.get_by_text("no queues")).to_be_visible()


def test_texts_of_others_stay_texts(
    tab: Tab, page: Page, client: Client, letters: list[int]
) -> None:
    """In lists, in views of one thing, in dialogs, in errors."""
    client.admin.create_topic("t", partitions=1)
    client.publish("t", {"what": EVIL}, key=EVIL, headers={"h": EVIL})
    client.publish("t", body=EVIL.encode())
    client.heartbeat(EVIL, kind="press", host=EVIL, sources=[EVIL])
    client.schedules.create_schedule(
        "s", queue="mail", payload={"a": EVIL}, every=timedelta(hours=1), label=EVIL[:20]
    )
    shown = "<img src=x onerror="
    for place in (
        "queues/mail/dead",
        f"jobs/{letters[0]}",
        "topics/t/messages",
        "topics/t/messages/0/1",
        "topics/t/messages/0/2",
        "workers",
    ):
        go(tab, page, place)
        expect(tab.get_by_text(shown).first).to_be_visible()
    go(tab, page, "topics/" + "%3Cimg%20src%3Dx%20onerror%3D%22window.caught%3D1%22%3E")
    expect(tab.get_by_role("alert")).to_contain_text(shown)
    go(tab, page, "%3Cimg%20src%3Dx%3E")
    expect(tab.get_by_role("heading", name="Nothing here")).to_be_visible()
    assert tab.evaluate("window.caught") is None
    assert tab.evaluate("document.images.length") == 0


def test_dead_letters_are_redriven(
    tab: Tab, page: Page, client: Client, letters: list[int]
) -> None:
    go(tab, page, "queues/mail/dead")
    rows = tab.get_by_role("region", name="dead letters").locator("tbody tr")
    expect(rows).to_have_count(3)
    rows.nth(1).get_by_role("button", name="Redrive…").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Put dead letter {letters[1]} back?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    assert client.monitor.queue_stats("mail")[0].dead == 3
    rows.nth(1).get_by_role("button", name="Redrive…").click()
    tab.get_by_role("dialog").get_by_role("button", name="Redrive").click()
    expect(tab.get_by_role("status")).to_have_text("1 dead letter is a job again")
    expect(rows).to_have_count(2)
    assert [job.job_id for job in client.jobs.peek_jobs("mail")] == [letters[1]]
    tab.get_by_role("button", name="Redrive many…").click()
    dialog = tab.get_by_role("dialog")
    dialog.get_by_label("how many").fill("many")
    dialog.get_by_role("button", name="Redrive").click()
    expect(dialog.get_by_role("alert")).to_contain_text("max_jobs must be a whole number")
    dialog.get_by_label("how many").fill("")
    dialog.get_by_role("button", name="Redrive").click()
    expect(tab.get_by_text("no dead letters")).to_be_visible()
    assert client.monitor.queue_stats("mail")[0].ready == 3


def test_a_job_that_waits_is_retried_now(tab: Tab, page: Page, client: Client) -> None:
    """It shows its snoozes and its progress; one that is due has no such button."""
    client.admin.create_queue("mail")
    client.enqueue("mail", 1)
    [job] = client.claim_job("mail")
    client.set_progress(job.job_id, job.lease_token, {"done": EVIL})
    client.release_job(job.job_id, job.lease_token, delay=timedelta(hours=1))
    go(tab, page, f"jobs/{job.job_id}")
    expect(tab.get_by_text('"done": "<img src=x onerror=')).to_be_visible()
    expect(tab.locator("dl.settings div", has_text="snoozes").locator("dd")).to_have_text("1")
    tab.get_by_role("button", name="Retry now…").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Retry job {job.job_id} now?")
    dialog.get_by_role("button", name="Retry").click()
    expect(tab.get_by_role("status")).to_have_text(f"job {job.job_id} is due now")
    expect(tab.get_by_role("button", name="Retry now…")).to_have_count(0)
    expect(tab.get_by_role("button", name="Cancel…")).to_be_visible()
    assert [one.job_id for one in client.claim_job("mail")] == [job.job_id]


def test_with_the_keyboard_alone(tab: Tab, page: Page, client: Client, letters: list[int]) -> None:
    """From the overview to a dead letter that is put back, without a mouse."""
    expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    keys = tab.keyboard
    keys.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    keys.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    keys.press("g")
    keys.press("q")
    expect(tab.get_by_role("heading", name="Queues")).to_be_visible()
    expect(tab.get_by_role("link", name="mail", exact=True)).to_be_visible()
    seen = []
    for _ in range(30):
        keys.press("Tab")
        text = tab.evaluate("document.activeElement.textContent")
        seen.append(text)
        outlined = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle !== 'none'")
        assert outlined, text
        if text == "mail":
            break
    assert seen[-1] == "mail", seen
    keys.press("Enter")
    expect(tab.get_by_role("heading", name="Queues / mail")).to_be_visible()
    tab.get_by_role("link", name="Dead letters", exact=True).focus()
    keys.press("Enter")
    first = tab.get_by_role("button", name="Redrive…").first
    expect(first).to_be_visible()
    first.focus()
    keys.press("Enter")
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_be_visible()
    # nothing behind the dialog can be reached
    for _ in range(4):
        assert tab.evaluate("document.activeElement.closest('main, header') === null")
        keys.press("Tab")
    keys.press("Escape")
    expect(dialog).to_have_count(0)
    first.focus()
    keys.press("Enter")
    expect(dialog.get_by_role("button", name="Redrive")).to_be_focused()
    keys.press("Enter")
    expect(tab.get_by_role("status")).to_have_text("1 dead letter is a job again")
    expect(tab.get_by_role("dialog")).to_have_count(0)
    keys.press("?")
    expect(tab.get_by_role("dialog")).to_contain_text("filter")
    keys.press("Escape")
    expect(tab.get_by_role("dialog")).to_have_count(0)
    keys.press("p")
    expect(tab.get_by_label("refresh")).to_have_value("0")


def test_a_key_right_behind_the_end_of_a_dialog_is_not_lost(tab: Tab) -> None:
    """A closed dialog keeps the focus for a moment, where what had it before is gone."""
    expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog")).to_contain_text("filter")
    press = "dispatchEvent(new KeyboardEvent('keydown', {key: 'p', bubbles: true}))"
    tab.evaluate(f"document.activeElement.{press}")
    tab.evaluate(
        "() => { const inside = document.activeElement; document.querySelector('dialog').close();"
        f" inside.{press} }}"
    )
    # had the open dialog not kept the first one, the second would have taken it back
    expect(tab.get_by_label("refresh")).to_have_value("0")


def test_a_dialog_that_is_asked_for_at_once_again(tab: Tab, page: Page, letters: list[int]) -> None:
    """The end of the one before is told a moment later, and is not its own."""
    go(tab, page, "queues/mail/dead")
    expect(tab.get_by_role("button", name="Redrive…").first).to_be_visible()
    tab.evaluate(
        """async () => {
            const [act] = [...document.querySelectorAll("button")]
                .filter((one) => one.textContent === "Redrive…");
            act.click();
            while (!document.querySelector("dialog[open]")) {
                await new Promise((done) => setTimeout(done, 5));
            }
            document.querySelector("dialog").close();
            act.click();
        }"""
    )
    expect(tab.get_by_role("dialog").get_by_role("button", name="Redrive")).to_be_focused()
    tab.wait_for_timeout(200)
    expect(tab.get_by_role("dialog")).to_be_visible()


def test_messages_are_browsed(tab: Tab, page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=2)
    client.publish_batch(
        "t", [{"n": n} for n in range(130)], keys=[f"k{n % 7}" for n in range(130)], partition=1
    )
    go(tab, page, "topics/t/messages")
    rows = tab.get_by_role("region", name="messages").locator("tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("1:130")
    tab.get_by_role("button", name="Older").click()
    expect(rows.first).to_contain_text("1:80")
    tab.get_by_role("button", name="Newest").click()
    expect(rows.first).to_contain_text("1:130")
    client.publish("t", {"n": "new"}, partition=1)
    tab.keyboard.press("r")
    expect(rows.first).to_contain_text("1:131")
    tab.get_by_label("key", exact=True).fill("k3")
    tab.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(19)
    tab.get_by_label("key", exact=True).fill("")
    tab.get_by_label("from", exact=True).fill("100")
    tab.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(32)
    tab.get_by_label("partition").select_option("0")
    expect(tab.get_by_text("no messages here")).to_be_visible()
    go(tab, page, "topics/t/messages/1/7")
    expect(tab.locator("pre")).to_have_text('{\n  "n": 6\n}')
    tab.get_by_role("link", name="Next").click()
    expect(tab.locator("pre")).to_have_text('{\n  "n": 7\n}')
    go(tab, page, "topics/t/messages/1/999")
    expect(tab.get_by_role("alert")).to_contain_text("MQ004")


def test_a_message_is_published(tab: Tab, page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=1)
    go(tab, page, "topics/t")
    tab.get_by_role("button", name="Publish…").click()
    dialog = tab.get_by_role("dialog")
    dialog.get_by_label("payload (JSON)").fill('{"n": 12345678901234567890')
    dialog.get_by_role("button", name="Publish").click()
    expect(dialog.get_by_role("alert")).to_contain_text("22P02")
    dialog.get_by_label("payload (JSON)").fill('{"n": 12345678901234567890}')
    dialog.get_by_label("key", exact=True).fill("k")
    dialog.get_by_role("button", name="Publish").click()
    expect(tab.get_by_role("status")).to_have_text("published to t, partition 0, offset 1")
    go(tab, page, "topics/t/messages/0/1")
    expect(tab.locator("pre")).to_have_text('{\n  "n": 12345678901234567890\n}')


def test_a_group_is_moved(tab: Tab, page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=1)
    client.admin.create_group("t", "g")
    client.publish_batch("t", [1, 2, 3])
    client.consume("t", "g")
    go(tab, page, "groups/t/g")
    tab.get_by_role("button", name="Move…").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.get_by_label("offset to read next")).to_have_count(0)
    dialog.get_by_label("to", exact=True).select_option("offset")
    dialog.get_by_label("offset to read next").fill("2")
    dialog.get_by_role("button", name="Move").click()
    expect(dialog).to_be_visible()  # the browser says that the partition is missing
    dialog.get_by_label("partition").fill("0")
    dialog.get_by_role("button", name="Move").click()
    expect(tab.get_by_role("status")).to_contain_text("1 partition")
    assert client.monitor.group_lag("t", "g")[0].committed_offset == 1


def test_lag_over_time_is_drawn(tab: Tab, page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=1)
    client.admin.create_group("t", "g")
    client.publish_batch("t", list(range(17)))
    go(tab, page, "groups/t/g")
    curve = tab.get_by_role("img", name=re.compile("^lag of g; now: lag 17$"))
    # two looks at the server, and whatever else the machine has to do
    expect(curve).to_be_visible(timeout=60_000)
    box = curve.locator("canvas").bounding_box()
    assert box is not None
    assert box["width"] > 400
    drawn = curve.locator("canvas").evaluate(
        "one => one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some(b => b)"
    )
    assert drawn


def test_tables_are_sorted_and_filtered(tab: Tab, page: Page, client: Client) -> None:
    for n in range(12):
        client.admin.create_topic(f"topic-{n}", partitions=1 + n % 3)
    client.admin.create_topic("other", partitions=16)
    go(tab, page, "topics")
    rows = tab.get_by_role("region", name="topics").locator("tbody tr")
    expect(rows).to_have_count(13)
    tab.get_by_role("button", name="partitions").click()
    expect(rows.first).to_contain_text("other")
    expect(tab.get_by_role("columnheader", name="partitions")).to_have_attribute(
        "aria-sort", "descending"
    )
    tab.get_by_role("button", name="topic", exact=True).click()
    expect(rows.nth(3)).to_contain_text("topic-2")
    tab.keyboard.press("/")
    tab.keyboard.type("topic-1")
    expect(rows).to_have_count(3)


def test_a_server_that_ended_is_told(browser: Browser, dsn: str) -> None:
    context = browser.new_context()
    tab = context.new_page()
    with Page(dsn) as page:
        tab.goto(page.url)
        expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    tab.keyboard.press("r")
    expect(tab.get_by_role("alert").first).to_contain_text("it may have been ended")
    context.close()


def test_an_answer_that_breaks_off_is_none(tab: Tab) -> None:
    """Of a request that was given up, or a server that ended; it is not an empty document."""
    expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    for name, said in (("AbortError", "AbortError"), ("SyntaxError", "answer of pgq ui broke off")):
        found = tab.evaluate(
            """async (name) => {
                const { read } = await import("/static/lib.mjs");
                const fetched = window.fetch;
                const json = async () => { throw new DOMException("broken", name); };
                window.fetch = async () => ({ ok: true, status: 200, json });
                const told = read("topics").then(JSON.stringify, (error) => `${error}`);
                window.fetch = fetched;
                return told;
            }""",
            name,
        )
        assert said in found


def test_it_cannot_be_framed(browser: Browser, page: Page) -> None:
    context = browser.new_context()
    tab = context.new_page()
    tab.set_content(f'<iframe src="{page.address}/" width=300 height=300></iframe>')
    frame = tab.frames[-1]
    with pytest.raises(Error):
        frame.wait_for_selector("h1", timeout=2000)
    context.close()


def test_what_another_page_sends_is_refused(browser: Browser, page: Page, client: Client) -> None:
    """Even one of this machine, with a token that it has from somewhere."""
    client.admin.create_queue("mail")
    context = browser.new_context()
    tab = context.new_page()
    with Page(client.connection.info.dsn) as other:
        tab.goto(other.address)
        said = tab.evaluate(
            """([url, token]) => fetch(url, {
                method: "POST", body: '{"queue": "mail"}',
                headers: {"Content-Type": "application/json", Authorization: `Bearer ${token}`},
            }).then(() => "sent", (error) => `${error}`)""",
            [page.address + "/api/act/pause_queue", TOKEN],
        )
    assert said.startswith("TypeError")
    assert not client.monitor.queue_stats("mail")[0].paused
    context.close()
