"""How the page looks: its colours, on small screens, and whether all of it can be read."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from pgq import Client
from support.page import Page, go

pytestmark = pytest.mark.slow


def test_colours(open_tab: Any) -> None:
    """Those of the system, or those that were chosen, which stay."""
    light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 28)"
    tab = open_tab(color_scheme="dark")
    expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    expect(tab.locator("body")).to_have_css("background-color", dark)
    tab.get_by_label("colours").select_option("light")
    expect(tab.locator("body")).to_have_css("background-color", light)
    tab.reload()
    expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    expect(tab.locator("body")).to_have_css("background-color", light)
    tab.get_by_label("colours").select_option("system")
    expect(tab.locator("body")).to_have_css("background-color", dark)
    tab.emulate_media(color_scheme="light")
    expect(tab.locator("body")).to_have_css("background-color", light)


NAMELESS = """() => [...document.querySelectorAll("button, a, input, select, textarea")]
    .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.length))
    .map((one) => one.outerHTML)"""

CONTRAST = """() => {
    const channels = (text) => text.match(/[0-9.]+/g).map(Number);
    const light = (text) => {
        const [r, g, b] = channels(text).map((one) => {
            const part = one / 255;
            return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (one) => {
        for (let at = one; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (channels(colour)[3] !== 0) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const found = [];
    for (const one of document.querySelectorAll("body *")) {
        const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || one.matches(":disabled, option, noscript") || !one.checkVisibility()) continue;
        const pair = [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a);
        const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
        if (ratio < 4.5) found.push(`${one.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_everywhere(
    open_tab: Any, page: Page, client: Client, letters: list[int], scheme: str
) -> None:
    """Each text stands out from its ground by 4.5, and no view is wider than a small screen."""
    client.admin.create_topic("t" * 63, partitions=2)
    client.admin.create_group("t" * 63, "g" * 63)
    client.publish("t" * 63, {"long": "x" * 400}, key="k" * 200)
    client.schedules.create_schedule("s", queue="mail", payload=1, cron="*/5 * * * *")
    client.admin.subscribe("u", "t" * 63, "mail")
    client.connection.execute("select pgq.create_queue('long', archive => true, max_attempts => 1)")
    client.enqueue_batch(
        "long", [{"x": "x" * 400}] * 3, labels=["l" * 100] * 3, keys=["k" * 200] * 3
    )
    jobs = client.claim_job("long", max_jobs=2)
    client.reject_job(jobs[0].job_id, jobs[0].lease_token, error="e" * 2000)
    client.archive_job(
        jobs[1].job_id, jobs[0].lease_token, outcome="o" * 60, result={"r": "r" * 400}
    )
    client.heartbeat("w" * 100, kind="worker", host="h" * 60, sources=["mail"])
    tab = open_tab(color_scheme=scheme, viewport={"width": 375, "height": 800})
    expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    topic = "t" * 63
    for place in (
        "", "topics", f"topics/{topic}", f"topics/{topic}/messages", f"topics/{topic}/messages/0/1",
        "groups", f"groups/{topic}/{'g' * 63}", "queues", "queues/mail", "queues/mail/jobs",
        "queues/mail/dead", f"jobs/{letters[0]}", "queues/long/jobs", "queues/long/dead",
        f"queues/long/dead?label={'l' * 100}&error_contains=e&since=1h%20ago&before=now",
        "queues/long/finished", f"jobs/{jobs[0].job_id}", "subscriptions", "schedules", "workers",
        "access", "health", "nowhere",
    ):  # fmt: skip
        go(tab, page, place)
        expect(tab.locator("main h1")).to_be_visible()
        expect(tab.get_by_text("…", exact=True)).to_have_count(0)
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= 375, (place, wide)
        assert tab.evaluate(CONTRAST) == [], place
        assert tab.evaluate(NAMELESS) == [], place
    go(tab, page, "queues/long/dead")
    row = tab.get_by_role("region", name="dead letters").locator("tbody tr").bounding_box()
    assert row is not None
    assert row["height"] < 600  # of 2000 characters a few lines
    tab.get_by_label("label", exact=True).fill("l" * 100)
    tab.keyboard.press("Enter")
    tab.get_by_role("button", name="Remove all that match…").click()
    expect(tab.get_by_role("dialog")).to_contain_text("These are 1 dead letter.")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 375
    assert tab.evaluate(CONTRAST) == []
