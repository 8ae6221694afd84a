"""The rounds of visits: a first load, a reload, a click on a new time range, and a click with answers in the cache."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from bench.dashboard import sessions
from bench.dashboard.browser import View, Viewer
from bench.dashboard.scene import JOB
from bench.dashboard.serving import Server, query_totals
from dashboards.address import AFTER_RATIO, HEAT_MAP_POINTS, RANGES
from dashboards.queries import CACHE_SECONDS

FIRST, AGAIN, CLICK_FIRST, CLICK_AGAIN = "first load", "reload", "click, first", "click, again"
BANNER = "first load, banner"  # until the banner is drawn
SCREEN = "first load, screen"  # until the charts on the screen are drawn
OF_PROMETHEUS = {FIRST: "Prometheus, first", AGAIN: "Prometheus, again"}
# Clicks start from NEUTRAL. A click on this view itself starts from OTHER_NEUTRAL.
NEUTRAL, OTHER_NEUTRAL = View("incidents", "incidents"), View("armed", "armed")
_PAUSE_SECONDS = 2.0  # before each visit, so that the refresh of the previous page is over
_NUM_MOMENTS = 4

Times = dict[str, dict[str, list[float]]]  # seconds of each visit by its kind, such as FIRST, and the name of its view


class Moments:
    """Ends of the time range. The dashboard's cache has no answer for the one that `fresh` returns."""

    def __init__(self, range_: str) -> None:
        seconds = RANGES[range_]
        column = seconds // HEAT_MAP_POINTS
        latest = (time.time() - AFTER_RATIO * seconds) // column * column - column
        self._moments = [int(latest - column * number) for number in range(_NUM_MOMENTS)]
        self._used: dict[int, float] = {}  # by moment: when it was used last, on the monotonic clock

    def fresh(self) -> str:
        """Wait until the answers for the least recently used moment have expired; return it."""
        moment = min(self._moments, key=lambda candidate: self._used.get(candidate, 0.0))
        time.sleep(max(0.0, self._used.get(moment, 0.0) + CACHE_SECONDS + _PAUSE_SECONDS - time.monotonic()))
        self._used[moment] = time.monotonic() + CACHE_SECONDS / 2  # an answer may come some seconds later
        return str(moment)


def loads(viewer: Viewer, views: Sequence[View], rounds: int, moments: Moments) -> Times:
    """Measure the load of each view in a new browser, then a reload in the same browser."""
    times: Times = defaultdict(lambda: defaultdict(list))
    for _ in range(rounds):
        moment = moments.fresh()
        for view in views:
            with viewer.tab() as page:
                for kind in (FIRST, AGAIN):
                    times[kind][view.name].append(viewer.visit(page, view, at=moment))
                    if kind == FIRST:
                        for part, seconds in zip((BANNER, SCREEN), viewer.drawing_times(page), strict=True):
                            times[part][view.name].append(seconds)
    return times


def clicks(viewer: Viewer, views: Sequence[View], rounds: int, moments: Moments) -> Times:
    """Measure clicks on each view in one tab, from a view with few queries.

    No time includes the load of the code for charts and tables. The tab has visited every view once before, and after
    each load of a page, it draws charts before the first measured click.
    """
    times: Times = defaultdict(lambda: defaultdict(list))
    with viewer.tab() as page:
        for view in views:
            viewer.visit(page, view)
        for _ in range(rounds):
            moment = moments.fresh()
            params = None
            for view in views:
                neutral = _neutral(view)
                if view.params != params:
                    viewer.visit(page, neutral, at=moment)
                    viewer.click(page, _with_charts(view))
                    params = view.params
                for kind in (CLICK_FIRST, CLICK_AGAIN):
                    viewer.click(page, neutral)
                    time.sleep(_PAUSE_SECONDS)
                    times[kind][view.name].append(viewer.click(page, view))
    return times


def load_without_browser(
    dashboard: Server, prometheus: Server, views: Sequence[View], rounds: int, moments: Moments
) -> Times:
    """Measure pages without a browser: the time of the server, and the part of Prometheus in it."""
    times: Times = defaultdict(lambda: defaultdict(list))
    for _ in range(rounds):
        moment = moments.fresh()
        for view in views:
            query = dict(view.params) | {"at": moment}
            for kind in (FIRST, AGAIN):
                seconds_before = query_totals(prometheus).seconds
                times[kind][view.name].append(sessions.load(dashboard.url, view.path, query))
                times[OF_PROMETHEUS[kind]][view.name].append(query_totals(prometheus).seconds - seconds_before)
    return times


@contextlib.contextmanager
def crowd(url: str, views: Sequence[View], viewers: int) -> Iterator[None]:
    """Keep this many viewers on these views during the block."""
    pages = [(view.path, dict(view.params)) for view in islice(cycle(views), viewers)]
    with sessions.watching(url, pages):
        yield


def views(range_: str, rank: int) -> list[View]:
    """Return all views of the dashboard."""
    job = (("job_id", JOB), ("range", range_))
    names = ("cluster", "job", "ranks", "communication", "scaling", "hardware", "incidents", "compare", "armed")
    return [
        *(View(name, name, job) for name in names),
        View("one rank", "ranks", (*job, ("rank", str(rank)))),
    ]


def before_clicks(views: Sequence[View]) -> Iterator[View]:
    """Yield the views that are clicked before those that are measured, with the same job and rank."""
    yield from dict.fromkeys(variant for view in views for variant in (_neutral(view), _with_charts(view)))


def _neutral(view: View) -> View:
    neutral = OTHER_NEUTRAL if view.path == NEUTRAL.path else NEUTRAL
    return View(neutral.name, neutral.path, view.params)


def _with_charts(view: View) -> View:
    """Return a view with few charts, for the same job and rank."""
    return View("compare", "compare", view.params)
