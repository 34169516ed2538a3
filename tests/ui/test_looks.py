"""How the page looks: its colours, on small screens, and whether all of it can be read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect
from playwright.sync_api import Page as Tab

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
    const stands = (one, colour) => {
        const pair = [light(colour), light(ground(one))].sort((a, b) => b - a);
        const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
        const text = one.textContent.trim() || one.placeholder;
        if (ratio < 4.5) found.push(`${text.slice(0, 30)}: ${ratio.toFixed(2)}`);
    };
    for (const one of document.querySelectorAll("[placeholder]")) {
        stands(one, getComputedStyle(one, "::placeholder").color);
    }
    for (const one of document.querySelectorAll("body *")) {
        const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || one.matches(":disabled, option, noscript") || !one.checkVisibility()) continue;
        stands(one, getComputedStyle(one).color);
    }
    return found;
}"""

WIDE = """() => [document.documentElement, ...document.querySelectorAll("nav, .scroll")]
    .filter((one) => one.scrollWidth > one.clientWidth + 1)
    .map((one) => `${one.ariaLabel || one.tagName}: ${one.scrollWidth} in ${one.clientWidth}`)"""

TALL = """() => [...document.querySelectorAll("tbody tr")]
    .filter((one) => one.getBoundingClientRect().height > 500).map((one) => one.textContent)"""

LARGE = [0.5, 1_200_000, 999_999_999, 1_250_000_000]
LABELS = f"""async () => {{
    const {{ short }} = await import(new URL("static/lib.mjs", document.baseURI));
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = "12px system-ui";
    return {LARGE}.map((one) => [short(one), pen.measureText(short(one)).width]);
}}"""


TOPIC, GROUP, LONG = "t" * 63, "g" * 63, "q" * 63
ERROR = "\n".join(
    ["Traceback (most recent call last):", *(["  File x"] * 80), "ValueError: " + "e" * 900]
)


@pytest.fixture
def places(client: Client, letters: list[int]) -> list[str]:
    """Every view, with long names, long texts and large numbers in it."""
    client.admin.create_topic(TOPIC, partitions=2)
    client.admin.create_topic("payments", partitions=1, restricted=True)
    client.admin.create_group(TOPIC, GROUP)
    client.publish(TOPIC, {"long": "x y " * 100}, key="k" * 200)
    client.schedules.create_schedule(
        "s" * 63, queue="mail", payload=1, cron="*/5 8-18 * * mon-fri", time_zone="Europe/Berlin"
    )
    client.connection.execute("update pgq.schedule set last_error = %s", [ERROR])
    client.connection.execute(
        "select pgq.create_queue(%s, archive => true, max_attempts => 1)", [LONG]
    )
    client.admin.subscribe("u" * 63, TOPIC, LONG, filter={"customer": ["a" * 200]})
    client.enqueue_batch(LONG, [{"x": "x" * 400}] * 3, labels=["l" * 100] * 3, keys=["k" * 200] * 3)
    jobs = client.claim_job(LONG, max_jobs=2)
    token = jobs[0].lease_token
    client.reject_job(jobs[0].job_id, token, error=ERROR)
    client.archive_job(jobs[1].job_id, token, outcome="o" * 60, result={"r": "r" * 400})
    client.heartbeat("w" * 100, kind="worker", host="h" * 60, sources=["mail", LONG])
    client.connection.execute("update pgq.worker set last_seen_at = '2000-01-01'")
    return [
        "", "topics", f"topics/{TOPIC}", f"topics/{TOPIC}/messages", f"topics/{TOPIC}/messages/0/1",
        f"topics/{TOPIC}/messages/1/1", "groups", f"groups/{TOPIC}/{GROUP}", "queues",
        "queues/mail", "queues/mail/jobs", "queues/mail/dead", f"jobs/{letters[0]}",
        f"queues/{LONG}", f"queues/{LONG}/jobs", f"queues/{LONG}/jobs?label={'l' * 100}",
        f"queues/{LONG}/dead", f"queues/{LONG}/errors", f"queues/{LONG}/finished",
        f"queues/{LONG}/dead?label={'l' * 100}&error_contains=e&since=1h%20ago&before=now",
        *(f"jobs/{job.job_id}" for job in jobs), "subscriptions", "schedules", "workers", "access",
        "health", "nowhere", "queues/nowhere",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_everywhere(
    open_tab: Any, page: Page, places: list[str], scheme: str, width: int
) -> None:
    """Each text stands out from its ground by 4.5, nothing scrolls sideways, no row is a page."""
    tab = open_tab(color_scheme=scheme, viewport={"width": width, "height": 800})
    expect(tab.get_by_role("heading", name="Overview")).to_be_visible()
    for place in places:
        go(tab, page, place)
        expect(tab.locator("main h1")).to_be_visible()
        expect(tab.get_by_text("…", exact=True)).to_have_count(0)
        assert tab.evaluate(WIDE) == [], place
        assert tab.evaluate(TALL) == [], place
        assert tab.evaluate(CONTRAST) == [], place
        assert tab.evaluate(NAMELESS) == [], place
    go(tab, page, f"queues/{LONG}/dead")
    tab.get_by_label("refresh").select_option("0")
    tab.get_by_label("label", exact=True).fill("l" * 100)
    tab.keyboard.press("Enter")
    expect(tab).to_have_url(re.compile("label="))
    tab.get_by_role("button", name="Remove all that match…").click()
    expect(tab.get_by_role("dialog")).to_contain_text("These are 1 dead letter.")
    assert tab.evaluate(WIDE) == []
    assert tab.evaluate(CONTRAST) == []


def test_a_small_screen(open_tab: Any, dsn: str, places: list[str]) -> None:
    """Fields stand below each other, and what belongs together side by side."""
    with Page(dsn, read_only=True) as shown:
        tab = open_tab(shown.url, viewport={"width": 390, "height": 800})
        expect(tab.locator(".where")).to_have_text(re.compile(r"PostgreSQL [\d.]+ +read-only$"))
        go(tab, shown, "queues/mail/dead")
        fields = tab.locator("form.choices input")
        expect(fields).to_have_count(5)
        assert len({box["x"] for box in map(Locator.bounding_box, fields.all()) if box}) == 1
        go(tab, shown, "schedules")
        when = tab.locator("td[data-title=when] code").bounding_box()
        assert when is not None
        assert when["height"] < 25  # in one line


def test_keys_are_not_cut_and_curves_have_labels(tab: Tab, page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=1)
    client.publish("t", {"long": "x" * 400}, key="customer-19")
    go(tab, page, "topics/t/messages")
    row = tab.get_by_role("region", name="messages").locator("tbody tr").bounding_box()
    assert row is not None
    assert row["height"] < 40
    labels = tab.evaluate(LABELS)
    assert [text for text, _ in labels] == ["0.5", "1.2M", "1B", "1.25B"]
    assert max(width for _, width in labels) < 45  # of 60, with the ticks
