"""Tests of the dashboard in a real browser: views of a healthy and of a stalled job, and the links of an alert."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from dashboards.address import REFRESH_SECONDS
from tests.e2e.browser import BUSIEST, SETTLED, VIEWS, assert_unbroken, open_tab, save_screenshot, visit_views
from tests.e2e.conftest import await_healthy_job
from tests.e2e.running_stack import HOST, Job, Jobs, RunningStack, wait_for

pytestmark = pytest.mark.browser

RANK = 2
VIEWS_BY_DEVICE = {"light": VIEWS, "dark": BUSIEST, "phone": BUSIEST}
REFRESH_MS = 1000 * REFRESH_SECONDS


@pytest.fixture(scope="module")
def stalled(stack: RunningStack, recovering_jobs: Jobs) -> Iterator[Job]:
    """A job with a stopped rank, after the page about it, for the last tests of this module."""
    job = await_healthy_job(stack, recovering_jobs)
    stack.await_silence(job)
    with stack.stopped(job, RANK) as struck:
        wait_for("a page", lambda: stack.alerts(job.job_id, "firing", struck), 20)
        yield job


@pytest.mark.slow  # test_two_clicks_… has a stopped rank in each run, and tests/dashboards/test_open_page.py open pages
def test_open_views_update_and_name_a_stopped_rank(stack, training, page):
    page.goto(f"{stack.urls['dashboard']}/job?job_id={training.job_id}")
    banner = page.get_by_test_id("zmon-banner")
    expect(banner).to_contain_text("HEALTHY", timeout=30_000)
    step_time = page.get_by_test_id("zmon-vitals").locator("div").filter(has_text="Step time").locator("dd")
    expect(step_time).to_have_text(re.compile(r"[\d.]+ m?s"))
    first = step_time.inner_text()
    wait_for("the step time moves", lambda: step_time.inner_text() != first, 20)

    with stack.stopped(training, RANK):
        expect(banner).to_contain_text("STALLED", timeout=10_000)
        expect(banner).to_contain_text(f"rank {RANK} on {HOST}")
        expect(banner).to_contain_text("rank_frozen")
        expect(page.get_by_test_id(f"zmon-rank-{RANK}")).to_contain_text("culprit", timeout=10_000)
        expect(step_time).to_contain_text("none for", timeout=10_000)
    expect(banner).to_contain_text("HEALTHY", timeout=40_000)

    page.goto(f"{stack.urls['dashboard']}/ranks?job_id={training.job_id}&rank={RANK}&range=6h")
    expect(page.get_by_role("heading", name=f"Rank {RANK}")).to_be_visible(timeout=20_000)
    rows = page.get_by_test_id("stVegaLiteChart").first.locator(".role-axis-label text").filter(has_text="rank")
    expect(rows).to_have_text(
        [f"rank {rank}" for rank in range(4)], timeout=60_000
    )  # Prometheus must have recorded it twice
    with stack.stopped(training, RANK):
        runbook = page.get_by_test_id("stExpander").filter(has_text="Runbook: rank_frozen")
        expect(runbook).to_be_visible(timeout=12_000)
        expect(rows.filter(has_text=f"rank {RANK} ◀")).to_be_visible(timeout=12_000)
        on_top = [f"rank {RANK} ◀", "rank 0", "rank 1", "rank 3"]
        wait_for("its row is on top", lambda: _texts_by_position(rows) == on_top, 5)
        save_screenshot(page, "open-ranks")


def _texts_by_position(texts: Locator) -> list[str]:
    """Return texts from top to bottom; their order in the document may differ."""
    positions = texts.evaluate_all("all => all.map(each => [each.getBoundingClientRect().top, each.textContent])")
    return [text for _, text in sorted(positions)]


def test_every_view_renders_while_a_job_trains(stack, training, browser):
    """Visit all views on a laptop, and the busiest ones in the dark theme and on a phone."""
    query = f"job_id={training.job_id}&range=5m&rank={RANK}"
    recorded = f'rate(zmon:rank_self_seconds:total{{job_id="{training.job_id}"}}[20s])'
    wait_for("rules have recorded it", lambda: stack.query(recorded), 60)
    for device, views in VIEWS_BY_DEVICE.items():
        with open_tab(browser, device) as page:
            page.goto(f"{stack.urls['dashboard']}/job?{query}")
            expect(page.get_by_test_id("zmon-banner")).to_contain_text("HEALTHY", timeout=30_000)
            visit_views(page, f"live-{device}", "HEALTHY", views)
            assert f"job_id={training.job_id}" in page.url
            assert "range=5m" in page.url


@pytest.mark.slow  # every run tests the links of an alert
def test_chosen_time_range_and_host_apply_to_other_views(stack, training, page):
    recorded = f'zmon:job_host:ranks{{job_id="{training.job_id}"}}'
    wait_for("rules have recorded its hosts", lambda: stack.query(recorded), 60)
    page.goto(f"{stack.urls['dashboard']}/ranks?job_id={training.job_id}")
    page.get_by_role("button", name="1h", exact=True).click()
    page.wait_for_url("**range=1h*")
    page.get_by_test_id("stPopover").get_by_role("button", name=training.job_id).click()
    hosts = page.get_by_role("combobox", name="Host")
    expect(hosts).to_be_visible(timeout=20_000)
    page.wait_for_timeout(2 * REFRESH_MS)  # an open list stays open while the page is refreshed
    hosts.fill(HOST)
    page.get_by_role("option", name=HOST, exact=True).click()
    page.wait_for_url(f"**host={HOST}*")
    assert "range=1h" in page.url
    page.keyboard.press("Escape")
    # When the popover shows the host, the links to other views have it too.
    expect(page.get_by_test_id("stPopover")).to_contain_text(f"on {HOST}")
    page.get_by_test_id("stPageLink").get_by_text("Hardware", exact=True).click()
    page.wait_for_function(SETTLED, arg="Hardware", timeout=20_000)
    query = parse_qs(urlsplit(page.url).query)
    assert (query["host"], query["range"]) == ([HOST], ["1h"])
    expect(page.get_by_test_id("stPopover")).to_contain_text(f"{training.job_id} on {HOST}")
    assert_unbroken(page, "Hardware")
    save_screenshot(page, "host-hardware")


@pytest.mark.slow  # every run tests the views of a healthy job, and the way from an alert to the stack
def test_every_view_renders_while_a_job_stalls(stack, stalled, browser):
    query = f"job_id={stalled.job_id}&range=5m&rank={RANK}"
    for device, views in VIEWS_BY_DEVICE.items():
        with open_tab(browser, device) as page:
            page.goto(f"{stack.urls['dashboard']}/?{query}")
            expect(page.get_by_test_id("zmon-banner")).to_contain_text("STALLED", timeout=30_000)
            visit_views(page, f"stalled-{device}", "STALLED", views)


def test_two_clicks_lead_from_an_alert_to_stack_and_runbook(stack, stalled, page):
    """The first click is the link in the alert."""
    *_, alert = stack.alerts(stalled.job_id, "firing")
    link = alert["annotations"]["dashboard_url"]
    query = parse_qs(urlsplit(link).query)
    assert query["job_id"] == [stalled.job_id]
    assert query["rank"] == [str(RANK)]
    onset = stack.findings(stalled.job_id)[0]["onset"]
    linked_second = int(query["at"][0])  # rounded down
    assert onset - 1 <= linked_second < onset + 9

    page.goto(link)
    expect(page.get_by_test_id("zmon-banner")).to_contain_text(f"rank {RANK} on {HOST}", timeout=30_000)
    expect(page.get_by_text("back to now")).to_be_visible(timeout=20_000)
    page.locator(".zmon-banner code").last.select_text()
    command = page.evaluate("getSelection().toString()")
    page.wait_for_timeout(2 * REFRESH_MS)  # long enough to press Ctrl-C
    assert page.evaluate("getSelection().toString()") == command
    assert "kill -CONT" in command
    page.get_by_test_id("stExpander").filter(has_text=f"Stack of rank {RANK}").locator("summary").click()
    expect(page.locator(".zmon-text").filter(has_text="Thread").first).to_be_visible(timeout=15_000)
    page.get_by_test_id("stExpander").filter(has_text="Runbook: rank_frozen").locator("summary").click()
    expect(page.get_by_text("kill -CONT").last).to_be_visible(timeout=20_000)
    save_screenshot(page, "alert-job")

    page.goto(link)
    page.get_by_role("link", name=f"rank {RANK} in detail").click()
    expect(page.get_by_role("heading", name=f"Rank {RANK}")).to_be_visible(timeout=20_000)
    expect(page.get_by_test_id("stDataFrame")).to_be_visible(timeout=20_000)
    assert_unbroken(page, "ranks")
    save_screenshot(page, "alert-rank")

    page.goto(link)
    page.get_by_role("link", name="the incident").click()
    expect(page.get_by_test_id("stIFrame")).to_be_visible(timeout=20_000)
    expect(page.frame_locator("[data-testid=stIFrame]").get_by_text("rank_frozen").first).to_be_visible(timeout=20_000)
    expect(page.get_by_text("Runbook: rank_frozen").first).to_be_visible(timeout=20_000)
    save_screenshot(page, "alert-incident")
