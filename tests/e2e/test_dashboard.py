"""The dashboard in a real browser: a step time that moves, then the culprit. Set ZMON_SHOTS to keep the pictures."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.e2e.conftest import HOST, Job, Running, wait_for

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture
def page() -> Iterator[Page]:
    """A tab of Debian's Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser.new_page(viewport={"width": 1280, "height": 1450})
        browser.close()


def keep(page: Page, name: str) -> None:
    """A picture for people, where they asked for one."""
    if folder := os.environ.get("ZMON_SHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / name)


def test_step_time_moves_and_a_stopped_rank_is_named(stack: Running, training: Job, page: Page) -> None:
    page.goto(f"{stack.urls['dashboard']}/?job_id={training.job_id}")
    banner = page.get_by_test_id("zmon-banner")
    expect(banner).to_contain_text("HEALTHY", timeout=30_000)
    step_time = page.get_by_test_id("stMetric").filter(has_text="Step time").get_by_test_id("stMetricValue")
    expect(step_time).to_have_text(re.compile(r"[\d.]+ m?s"))
    seen = {step_time.inner_text()}
    wait_for("the step time moves", lambda: seen.add(step_time.inner_text()) or len(seen) > 1, 20)
    keep(page, "healthy.png")

    pid = stack.ranks(training.job_id)[2]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        expect(banner).to_contain_text("STALLED", timeout=10_000)
        expect(banner).to_contain_text(f"rank 2 on {HOST}")
        expect(banner).to_contain_text("rank_frozen")
        expect(page.get_by_test_id("zmon-rank-2")).to_contain_text("culprit", timeout=10_000)
        expect(step_time).to_contain_text("none for", timeout=10_000)
        page.wait_for_timeout(6_000)
        keep(page, "stalled.png")
    finally:
        os.kill(pid, signal.SIGCONT)
    expect(banner).to_contain_text("HEALTHY", timeout=40_000)


def test_an_unknown_job_is_not_called_healthy(stack: Running, page: Page) -> None:
    page.goto(f"{stack.urls['dashboard']}/?job_id=no-such-job")
    expect(page.get_by_test_id("zmon-banner")).to_contain_text("no-such-job", timeout=30_000)
    expect(page.get_by_test_id("zmon-banner")).not_to_contain_text("HEALTHY")
