"""What a reader looks at: which job, rank and host, and when. All of it is in the URL, so that a link shows the same.

    ?job_id=ads&rank=3&range=1h&at=1795217275&what_if=net=2

`range` is how far back, until now or until a little after `at`, the moment that an alert leads to. What nobody can
make sense of is left out: a link that a pager cut in two still opens.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import TypedDict, Unpack

RANGES = {"5m": 300, "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800}
USUAL = "15m"
REFRESH_SECONDS = 2  # zmon's scrape interval: there is nothing newer to show
POINTS = 120  # one for five pixels of a chart half a screen wide; of 200 ten charts keep a browser for 0.1 s longer
TURNS = 1 / 6  # of the time from points to points: within it viewers see them one by one, not all in the same second
COLUMNS = 60  # of a heat map
SHORTEST_WINDOW_SECONDS = 10  # five scrapes: a rate survives two that fail
SHORTEST_GRID_SECONDS, LONGEST_GRID_SECONDS = 6, 60  # so long a chart of minutes, and one of days, may end before now
RECORDED_SECONDS = 10  # how often dashboards/rules/panels.yaml records a rank
FACTOR = re.compile(r"\d{1,4}(\.\d{1,4})?", re.ASCII)  # of a what-if
AFTER = 1 / 3  # of the range lies after the moment that a link leads to, as far as that has passed


@dataclass(frozen=True)
class Span:
    """From when to when, in whole seconds; it stays the same until the next points are due, for a minute at most."""

    start: int
    end: int
    resolution: int

    def window(self, step_seconds: float | None) -> int:
        """Of a rate: all of what a point stands for, and long enough for some steps to end in it."""
        return max(SHORTEST_WINDOW_SECONDS, self.resolution, round(4 * (step_seconds or 0)))


class Changes(TypedDict, total=False):
    """Fields of an Address that a choice or a link changes."""

    job_id: str | None
    rank: int | None
    host: str | None
    range: str
    at: float | None
    other: str | None
    incident: str | None
    what_if: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Address:
    """What a reader looks at; None is whatever needs a look first."""

    job_id: str | None = None
    rank: int | None = None
    host: str | None = None
    range: str = USUAL
    at: float | None = None  # unix seconds; None: now
    other: str | None = None  # a second job to compare with
    incident: str | None = None
    what_if: tuple[tuple[str, float], ...] = ()  # what is how many times as much

    @classmethod
    def read(cls, params: Mapping[str, str]) -> "Address":
        """Of a URL's query."""
        return cls(
            job_id=params.get("job_id") or None,
            rank=_number(params.get("rank", "")),
            host=params.get("host") or None,
            range=params["range"] if params.get("range") in RANGES else USUAL,
            at=_moment(params.get("at", "")),
            other=params.get("other") or None,
            incident=params.get("incident") or None,
            what_if=_factors(params.get("what_if", "")),
        )

    def params(self) -> dict[str, str]:
        """As a URL's query; what is as usual is left out."""
        told = {
            "job_id": self.job_id,
            "rank": self.rank,
            "host": self.host,
            "range": self.range if self.range != USUAL else None,
            "at": None if self.at is None else int(self.at),
            "other": self.other,
            "incident": self.incident,
            "what_if": ",".join(f"{what}={factor:g}" for what, factor in self.what_if) or None,
        }
        return {name: str(value) for name, value in told.items() if value is not None}

    def moved(self, **changes: Unpack[Changes]) -> "Address":
        """With these changed. Another job has other ranks and hosts."""
        if self.job_id and changes.get("job_id", self.job_id) != self.job_id:
            changes = {"rank": None, "host": None, "incident": None, **changes}
        return replace(self, **changes)

    def span(
        self,
        now: float,
        points: int = POINTS,
        finest: int = REFRESH_SECONDS,
        *,
        turn: float = 0.0,
        begin: float | None = None,
    ) -> Span:
        """What its charts show, seen at `now`: so many points, none closer than `finest` seconds to the next.

        `turn`, from 0 to 1: whether a viewer is one of the first or of the last who see the next points. Of what began
        at `begin` a shorter range shows all, where one does, and in more detail.
        """
        seconds = RANGES[self.range]
        if begin is not None:
            looked = now if self.at is None else min(now, self.at + AFTER * seconds)
            seconds = min((enough for enough in RANGES.values() if looked - begin <= enough < seconds), default=seconds)
        resolution = max(finest, seconds // points)
        grid = min(resolution * ceil(SHORTEST_GRID_SECONDS / resolution), LONGEST_GRID_SECONDS)
        latest = now - turn * TURNS * grid
        if self.at is not None:
            latest = min(latest, self.at + AFTER * seconds)
        end = int(latest) // grid * grid
        return Span(end - seconds, end, resolution)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None


def _factors(text: str) -> tuple[tuple[str, float], ...]:
    parts = (part.partition("=") for part in text.split(","))
    return tuple((what, float(factor)) for what, _, factor in parts if what and FACTOR.fullmatch(factor))


def _moment(text: str) -> float | None:
    try:
        moment = float(text)
    except ValueError:
        return None
    return moment if isfinite(moment) and 0 < moment < 1e11 else None
