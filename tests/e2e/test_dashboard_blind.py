"""Tests of the dashboard without hub or Prometheus. Every view is BLIND, and the banner names the setting to check."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser import visit_views
from tests.e2e.parts import is_up
from tests.e2e.running_stack import Job, RunningStack, wait_for
from tests.ports import free_port

pytestmark = pytest.mark.browser

PARTS = ("hub", "prometheus")
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def start_dashboard(stack: RunningStack) -> Iterator[Callable[..., str]]:
    """Return a function that starts a `zmon dashboard` with this hub and Prometheus, and returns its URL."""
    started: list[subprocess.Popen[bytes]] = []

    def start(hub: str, prometheus: str) -> str:
        port = free_port(8600)
        command = [sys.executable, "-m", "zmon", "dashboard", "--port", str(port), "--hub", hub]
        process = subprocess.Popen([*command, "--prometheus", prometheus], env=stack.env, start_new_session=True)
        started.append(process)
        url = f"http://127.0.0.1:{port}"
        wait_for("the dashboard answers", lambda: is_up(f"{url}/_stcore/health"), 30)
        return url

    yield start
    for process in started:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(timeout=10)


@pytest.mark.parametrize("dead", [("hub",), ("prometheus",), PARTS], ids="-".join)
@pytest.mark.slow  # tests/dashboards/test_views.py has a Prometheus that hangs
def test_views_are_blind_without_hub_or_prometheus(
    stack: RunningStack, training: Job, start_dashboard: Callable[..., str], page: Page, dead: tuple[str, ...]
) -> None:
    base = start_dashboard(**{part: NOWHERE if part in dead else stack.urls[part] for part in PARTS})
    page.goto(f"{base}/job?job_id={training.job_id}&range=5m")
    banner = page.get_by_test_id("zmon-banner")
    for part in dead:
        expect(banner).to_contain_text(f"ZMON_{part.upper()}_URL", timeout=30_000)
    visit_views(page, f"without-{'-'.join(dead)}", "BLIND")
