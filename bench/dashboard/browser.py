"""How soon a person sees a view, in a real Chromium: until all of it is drawn and nothing on it is of before.

What all of it is, is learnt from a visit that was given time. The clock is the page's own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, Playwright, sync_playwright
from playwright.sync_api import TimeoutError as TooLate

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SIZE = {"width": 1280, "height": 1450}
MOST_SECONDS = 30.0  # then a view is given up, and counts as so long
_SETTLED_SECONDS = 5.0
_EACH_MS = 50  # how often the page is looked at, which takes it some time as well

# What is on the page, however far drawn: a chart has its place also where its answer did not come.
LOOK = """
  const count = chosen => document.querySelectorAll(chosen).length;
  const look = () => JSON.stringify({
    path: location.pathname,
    banners: count('[data-testid=zmon-banner]'),
    places: count('[data-testid=stVegaLiteChart], .zmon-chart-unknown'),
    tables: ['zmon-jobs', 'zmon-hosts', 'zmon-incidents', 'zmon-compare', 'zmon-armed', 'zmon-sizes', 'zmon-ranks',
             'stDataFrame', 'zmon-empty'].map(id => count(`[data-testid=${id}]`)),
    heads: [...document.querySelectorAll('.zmon-head strong, [data-testid=stMarkdown] strong')]
      .map(head => head.textContent),
  });
  const drawn = () => document.querySelector('[data-testid=zmon-banner], [data-testid=zmon-empty]') &&
    !document.querySelector('[data-stale=true], [data-testid=stSkeleton]') &&
    [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].every(chart => chart.querySelector('.marks'));
"""
READY = f"wanted => {{ {LOOK} return drawn() && look() === wanted && performance.now() - (window.zmonFrom ?? 0) }}"
SEEN = f"() => {{ {LOOK} return drawn() ? look() : '' }}"
CLICK = """title => {
  const link = [...document.querySelectorAll('[data-testid=stPageLink-NavLink]')]
    .find(link => link.textContent.trim() === title);
  window.zmonFrom = performance.now();
  link.click();
}"""
UNKNOWN = "() => [...document.querySelectorAll('.zmon-chart-unknown')].map(one => one.textContent)"


@dataclass(frozen=True)
class View:
    """A view as a URL names it."""

    name: str
    path: str
    params: tuple[tuple[str, str], ...] = ()

    def url(self, base: str, **more: str) -> str:
        """Where it is."""
        return f"{base}/{self.path}?{urlencode({**dict(self.params), **more})}"


class Eye:
    """Someone who looks at views, one after the other."""

    def __init__(self, chromium: Browser, base: str) -> None:
        self._chromium, self._base = chromium, base
        self._whole: dict[View, str] = {}  # what is there once all is
        self.unknown: dict[str, set[str]] = {}  # by view, what a chart said in place of what it should show

    def learn(self, view: View) -> None:
        """A visit that is given time, to know the view again."""
        with self.tab() as page:
            page.goto(view.url(self._base), wait_until="commit")
            seen, since, began = "", 0.0, time.monotonic()
            while not seen or time.monotonic() - since < _SETTLED_SECONDS:
                found = page.evaluate(SEEN)
                if found and found != seen:
                    seen, since = found, time.monotonic()
                if time.monotonic() - began > MOST_SECONDS:
                    raise SystemExit(f"the view {view.name} does not come to rest: {view.url(self._base)}")
                time.sleep(0.1)
            self._whole[view] = seen

    @contextlib.contextmanager
    def tab(self) -> Iterator[Page]:
        """Of somebody who was never here."""
        context = self._chromium.new_context(viewport=SIZE)
        try:
            yield context.new_page()
        finally:
            context.close()

    def visit(self, page: Page, view: View, **more: str) -> float:
        """Seconds from the entered URL."""
        page.goto(view.url(self._base, **more), wait_until="commit")
        return self._ready(page, view)

    def click(self, page: Page, view: View) -> float:
        """Seconds from a click on the way there, once there is one: a page that is late has none yet."""
        page.get_by_test_id("stPageLink").get_by_text(view.path.title(), exact=True).wait_for()
        page.evaluate(CLICK, view.path.title())
        return self._ready(page, view)

    def _ready(self, page: Page, view: View) -> float:
        try:
            arrived = page.wait_for_function(
                READY, arg=self._whole[view], polling=_EACH_MS, timeout=MOST_SECONDS * 1000
            )
        except TooLate:
            return MOST_SECONDS
        if said := page.evaluate(UNKNOWN):
            self.unknown.setdefault(view.name, set()).update(said)
        return float(arrived.json_value()) / 1000


@contextlib.contextmanager
def eye(base: str) -> Iterator[Eye]:
    """In a Chromium of its own."""
    with sync_playwright() as playwright:
        chromium = _launch(playwright)
        try:
            yield Eye(chromium, base)
        finally:
            chromium.close()


def _launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
