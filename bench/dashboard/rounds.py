"""The same visits again and again: a first load, a reload, a click where nobody asked before, a click where one did."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from bench.dashboard import sessions
from bench.dashboard.browser import Eye, View
from bench.dashboard.scene import JOB
from bench.dashboard.serving import Server, answered
from dashboards.address import AFTER, COLUMNS, RANGES
from dashboards.queries import CACHE_SECONDS

FIRST, AGAIN, CLICK_FIRST, CLICK_AGAIN = "first load", "reload", "click, first", "click, again"
OF_PROMETHEUS = {FIRST: "Prometheus, first", AGAIN: "Prometheus, again"}
NEUTRAL, OTHER_NEUTRAL = View("incidents", "incidents"), View("armed", "armed")  # where clicks come from
_APART_SECONDS = 2.0  # between a visit and the next one: the refresh of the one before is over
_MOMENTS = 4

Times = dict[str, dict[str, list[float]]]  # seconds by kind and view


class Moments:
    """Moments to look at of which no answer is kept: each is used again only after answers to it are forgotten."""

    def __init__(self, range_: str) -> None:
        seconds = RANGES[range_]
        column = seconds // COLUMNS
        latest = (time.time() - AFTER * seconds) // column * column - column
        self._moments = [int(latest - column * place) for place in range(_MOMENTS)]
        self._used: dict[int, float] = {}

    def fresh(self) -> str:
        """One of them."""
        moment = min(self._moments, key=lambda one: self._used.get(one, 0.0))
        time.sleep(max(0.0, self._used.get(moment, 0.0) + CACHE_SECONDS + _APART_SECONDS - time.monotonic()))
        self._used[moment] = time.monotonic() + CACHE_SECONDS / 2  # an answer may come some seconds later
        return str(moment)


def loads(eye: Eye, views: Sequence[View], rounds: int, moments: Moments) -> Times:
    """In a browser that was never here, then once more in the same."""
    times: Times = defaultdict(lambda: defaultdict(list))
    for _ in range(rounds):
        at = moments.fresh()
        for view in views:
            with eye.tab() as page:
                for kind in (FIRST, AGAIN):
                    times[kind][view.name].append(eye.visit(page, view, at=at))
    return times


def clicks(eye: Eye, views: Sequence[View], rounds: int, moments: Moments) -> Times:
    """In one tab that stays, from a view that asks for little."""
    times: Times = defaultdict(lambda: defaultdict(list))
    with eye.tab() as page:
        for _ in range(rounds):
            at, params = moments.fresh(), None
            for view in views:
                neutral = _neutral(view)
                if view.params != params:
                    eye.visit(page, neutral, at=at)
                    params = view.params
                for kind in (CLICK_FIRST, CLICK_AGAIN):
                    eye.click(page, neutral)
                    time.sleep(_APART_SECONDS)
                    times[kind][view.name].append(eye.click(page, view))
    return times


def served(dashboard: Server, prometheus: Server, views: Sequence[View], rounds: int, moments: Moments) -> Times:
    """Without a browser: what the server takes for a page, and how much of that Prometheus does."""
    times: Times = defaultdict(lambda: defaultdict(list))
    for _ in range(rounds):
        at = moments.fresh()
        for view in views:
            for kind in (FIRST, AGAIN):
                before = answered(prometheus)[1]
                times[kind][view.name].append(sessions.load(dashboard.url, view.path, dict(view.params) | {"at": at}))
                times[OF_PROMETHEUS[kind]][view.name].append(answered(prometheus)[1] - before)
    return times


@contextlib.contextmanager
def crowd(url: str, views: Sequence[View], viewers: int) -> Iterator[None]:
    """So many who look at these views, all the time."""
    of = [(view.path, dict(view.params)) for view in islice(cycle(views), viewers)]
    with sessions.watching(url, of):
        yield


def views(range_: str, rank: int) -> list[View]:
    """All that there are."""
    of_job = (("job_id", JOB), ("range", range_))
    names = ("cluster", "job", "ranks", "communication", "scaling", "hardware", "incidents", "compare", "armed")
    return [
        *(View(name, name, of_job) for name in names),
        View("one rank", "ranks", (*of_job, ("rank", str(rank)))),
    ]


def neutrals(every: Sequence[View]) -> Iterator[View]:
    """Where the clicks come from, as views of their own: of the same job and rank."""
    yield from dict.fromkeys(_neutral(view) for view in every)


def _neutral(view: View) -> View:
    of = OTHER_NEUTRAL if view.path == NEUTRAL.path else NEUTRAL
    return View(of.name, of.path, view.params)
