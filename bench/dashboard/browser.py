"""Measures the time until a view is completely drawn in a real Chromium, without elements of the previous view.

A first visit records the elements of the complete view. Later visits are measured with the clock of the page.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright
from playwright.sync_api import TimeoutError as TooLate

_CHROMIUM = "/usr/bin/chromium"
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_SIZE = ViewportSize(width=1280, height=1450)
MAX_SECONDS = 30.0  # the limit for a view; a slower view counts as this long
_SETTLED_SECONDS = 5.0  # a view is complete if its elements do not change for this long
_POLLING_MS = 50  # between two checks, so a time is up to this much too long; more checks would slow the page down
_LEARNING_SECONDS = 0.1  # between two checks while a view is learned

# The elements of the page, drawn or not. A chart has an element even if its answer is missing.
_CONTENT_FUNCTIONS = """
  const count = selector => document.querySelectorAll(selector).length;
  const content = () => JSON.stringify({
    path: location.pathname,
    banners: count('[data-testid=zmon-banner]'),
    charts: count('[data-testid=stVegaLiteChart], .zmon-chart-unknown'),
    tables: ['zmon-jobs', 'zmon-hosts', 'zmon-incidents', 'zmon-compare', 'zmon-armed', 'zmon-sizes', 'zmon-ranks',
             'stDataFrame', 'zmon-empty'].map(id => count(`[data-testid=${id}]`)),
    heads: [...document.querySelectorAll('.zmon-head strong, [data-testid=stMarkdown] strong')]
      .map(head => head.textContent),
  });
  const drawn = () => document.querySelector('[data-testid=zmon-banner], [data-testid=zmon-empty]') &&
    !document.querySelector('[data-stale=true], [data-testid=stSkeleton]') &&
    [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].every(chart => chart.querySelector('.marks'));
"""
_READY = f"""complete => {{ {_CONTENT_FUNCTIONS}
  return drawn() && content() === complete && performance.now() - (window.zmonFrom ?? 0);
}}"""
_CONTENT = f"() => {{ {_CONTENT_FUNCTIONS} return drawn() ? content() : '' }}"
# When the banner appeared, and when each chart was drawn.
_OBSERVER = """(() => {
  const drawn = new Map();
  window.zmonTimes = {drawn};
  new MutationObserver(() => {
    window.zmonTimes.banner ??= document.querySelector('[data-testid=zmon-banner]') ? performance.now() : undefined;
    for (const chart of document.querySelectorAll('[data-testid=stVegaLiteChart]'))
      if (!drawn.has(chart) && chart.querySelector('.marks')) drawn.set(chart, performance.now());
  }).observe(document, {subtree: true, childList: true});
})()"""
_TIMES = """() => {
  const {banner, drawn} = window.zmonTimes;
  const onScreen = [...drawn].filter(([chart]) => chart.getBoundingClientRect().top < innerHeight);
  return [banner, Math.max(banner, ...onScreen.map(([, time]) => time))];
}"""
_CLICK = """title => {
  const link = [...document.querySelectorAll('[data-testid=stPageLink-NavLink]')]
    .find(link => link.textContent.trim() === title);
  window.zmonFrom = performance.now();
  link.click();
}"""
_UNKNOWN = "() => [...document.querySelectorAll('.zmon-chart-unknown')].map(chart => chart.textContent)"


@dataclass(frozen=True)
class View:
    """A view with its URL."""

    name: str
    path: str
    params: tuple[tuple[str, str], ...] = ()

    def url(self, base: str, **params: str) -> str:
        """Return the URL of the view."""
        return f"{base}/{self.path}?{urlencode({**dict(self.params), **params})}"


class Viewer:
    """A viewer who opens views one after the other."""

    def __init__(self, chromium: Browser, base: str) -> None:
        self._chromium, self._base = chromium, base
        self._complete: dict[View, str] = {}  # the elements of the complete view
        self.unknown: dict[str, set[str]] = {}  # by view, the messages of charts that could not be drawn

    def learn(self, view: View) -> None:
        """Visit a view until it stops changing, and store the elements of the complete view. Exit if it never stops."""
        with self.tab() as page:
            page.goto(view.url(self._base), wait_until="commit")
            content = ""
            changed_at = 0.0
            began_at = time.monotonic()
            while not content or time.monotonic() - changed_at < _SETTLED_SECONDS:
                current = page.evaluate(_CONTENT)
                if current and current != content:
                    content = current
                    changed_at = time.monotonic()
                if time.monotonic() - began_at > MAX_SECONDS:
                    raise SystemExit(f"the view {view.name} keeps changing: {view.url(self._base)}")
                time.sleep(_LEARNING_SECONDS)
            self._complete[view] = content

    @contextlib.contextmanager
    def tab(self) -> Iterator[Page]:
        """Open a tab of a new viewer, without cache and cookies."""
        context = self._chromium.new_context(viewport=_SIZE)
        try:
            context.add_init_script(_OBSERVER)
            yield context.new_page()
        finally:
            context.close()

    def visit(self, page: Page, view: View, **params: str) -> float:
        """Open the URL of a view. Return the seconds until it is drawn, at most MAX_SECONDS."""
        page.goto(view.url(self._base, **params), wait_until="commit")
        return self._ready(page, view)

    def drawing_times(self, page: Page) -> tuple[float, float]:
        """Return the seconds from the load of a page until its banner, and until all charts on the screen are drawn."""
        banner, screen = page.evaluate(_TIMES)
        return banner / 1000, screen / 1000

    def click(self, page: Page, view: View) -> float:
        """Wait for the link to a view and click it. Return the seconds from the click until the view is drawn."""
        page.get_by_test_id("stPageLink").get_by_text(view.path.title(), exact=True).wait_for()
        page.evaluate(_CLICK, view.path.title())
        return self._ready(page, view)

    def _ready(self, page: Page, view: View) -> float:
        try:
            arrived = page.wait_for_function(
                _READY, arg=self._complete[view], polling=_POLLING_MS, timeout=MAX_SECONDS * 1000
            )
        except TooLate:
            return MAX_SECONDS
        if messages := page.evaluate(_UNKNOWN):
            self.unknown.setdefault(view.name, set()).update(messages)
        return float(arrived.json_value()) / 1000


@contextlib.contextmanager
def viewer(base: str) -> Iterator[Viewer]:
    """Start a Chromium and yield a viewer that uses it."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
        try:
            yield Viewer(chromium, base)
        finally:
            chromium.close()
