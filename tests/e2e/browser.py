"""Debian's Chromium, and what a test does in it. Pictures of every view lie in build/shots, for people to look at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect

from tests.places import REPOSITORY

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SHOTS = REPOSITORY / "build" / "shots"
LAPTOP, PHONE = {"width": 1280, "height": 1450}, {"width": 390, "height": 844}
LOOKS = {"light": (LAPTOP, "light"), "dark": (LAPTOP, "dark"), "phone": (PHONE, "dark")}
VIEWS = ("Cluster", "Job", "Ranks", "Communication", "Scaling", "Hardware", "Incidents", "Compare", "Armed")
BUSIEST = ("Job", "Ranks")  # the widest table, the most charts, the longest text
OF_ALL = ("Cluster", "Armed")  # they speak of other tests' jobs as well
# All of this view is there, nothing is of another, and every chart has been drawn.
SETTLED = """view => document.querySelector('[data-testid=zmon-seen]')?.textContent.startsWith(view)
  && !document.querySelector('[data-stale=true], [data-testid=stSkeleton]')
  && [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].every(chart => chart.querySelector('.marks'))"""


@contextmanager
def opened(browser: Browser, look: str = "light") -> Iterator[Page]:
    """A tab of somebody who was not there before."""
    size, theme = LOOKS[look]
    with browser.new_context(viewport=size, color_scheme=theme) as visitor:
        yield visitor.new_page()


def walk(page: Page, name: str, expected: str, views: Sequence[str] = VIEWS) -> None:
    """Through views by their links; each says `expected`, breaks not, and leaves its picture."""
    for view in views:
        page.get_by_test_id("stPageLink").get_by_text(view, exact=True).click()
        page.wait_for_function(f"location.pathname == '/{view.lower()}'")
        said = expected if view not in OF_ALL else re.compile("[A-Z]{5}")
        expect(page.get_by_test_id("zmon-banner")).to_contain_text(said, timeout=20_000)
        page.wait_for_function(SETTLED, arg=view, timeout=20_000)
        assert_unbroken(page, view)
        keep(page, f"{name}-{view.lower()}")


def assert_unbroken(page: Page, view: str) -> None:
    """No exception, no error, nothing wider than the screen."""
    for broken in ("stException", "stAlert", "stAlertContentError"):
        assert page.get_by_test_id(broken).count() == 0, (view, page.get_by_test_id(broken).first.inner_text())
    wide = page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
    assert wide <= 1, f"{view} is {wide} pixels wider than the screen"


def keep(page: Page, name: str) -> None:
    """A picture of all of the page."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    size = page.viewport_size
    page.set_viewport_size({"width": size["width"], "height": min(int(height), 4000)})
    page.screenshot(path=SHOTS / f"{name}.png")
    page.set_viewport_size(size)
