"""Drive Debian's Chromium in tests; screenshots of every view go to build/shots for people to look at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect

from tests.places import REPOSITORY

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SCREENSHOTS = REPOSITORY / "build" / "shots"
LAPTOP, PHONE = {"width": 1280, "height": 1450}, {"width": 390, "height": 844}
DEVICES = {"light": (LAPTOP, "light"), "dark": (LAPTOP, "dark"), "phone": (PHONE, "dark")}
VIEWS = ("Cluster", "Job", "Ranks", "Communication", "Scaling", "Hardware", "Incidents", "Compare", "Armed")
BUSIEST = ("Job", "Ranks")  # the views with the widest table, the most charts and the longest text
OF_ALL_JOBS = ("Cluster", "Armed")  # these views show the jobs of other tests as well
# The view is complete, nothing is left of the previous view, and every chart has been drawn.
SETTLED = """view => document.querySelector('[data-testid=zmon-seen]')?.textContent.startsWith(view)
  && !document.querySelector('[data-stale=true], [data-testid=stSkeleton]')
  && [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].every(chart => chart.querySelector('.marks'))
  && [...document.querySelectorAll('.zmon-plain')].every(chart => chart.querySelector('img')?.naturalWidth)"""


@contextmanager
def open_tab(browser: Browser, device: str = "light") -> Iterator[Page]:
    """Open a tab in its own browser profile."""
    size, theme = DEVICES[device]
    with browser.new_context(viewport=size, color_scheme=theme) as context:
        yield context.new_page()


def visit_views(page: Page, name: str, expected: str, views: Sequence[str] = VIEWS) -> None:
    """Visit views by their links; check that each shows `expected` and is unbroken, and save its screenshot."""
    for view in views:
        page.get_by_test_id("stPageLink").get_by_text(view, exact=True).click()
        page.wait_for_function(f"location.pathname == '/{view.lower()}'")
        banner_text = expected if view not in OF_ALL_JOBS else re.compile("[A-Z]{5}")
        expect(page.get_by_test_id("zmon-banner")).to_contain_text(banner_text, timeout=20_000)
        page.wait_for_function(SETTLED, arg=view, timeout=20_000)
        assert_unbroken(page, view)
        save_screenshot(page, f"{name}-{view.lower()}")


def assert_unbroken(page: Page, view: str) -> None:
    """Check that the page shows no exception and no error, and is not wider than the screen."""
    for broken in ("stException", "stAlert", "stAlertContentError"):
        assert page.get_by_test_id(broken).count() == 0, (view, page.get_by_test_id(broken).first.inner_text())
    excess = page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
    assert excess <= 1, f"{view} is {excess} pixels wider than the screen"


def save_screenshot(page: Page, name: str) -> None:
    """Save a screenshot of the whole page."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    size = page.viewport_size
    page.set_viewport_size({"width": size["width"], "height": min(int(height), 4000)})
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    page.set_viewport_size(size)
