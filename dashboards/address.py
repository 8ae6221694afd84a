"""The selection of a reader: job, rank, host and time. All of it is in the URL, so that a copied link shows the same.

    ?job_id=ads&rank=3&range=1h&at=1795217275&what_if=net=2

`range` is the length of the time range. The range ends now, or a little after `at`, which is the time in the link of an
alert. A parameter that cannot be parsed is ignored, so that a link that a pager has cut off still opens.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import TypedDict, Unpack
from urllib.parse import urlencode

RANGES = {"5m": 300, "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800}
DEFAULT_RANGE = "15m"
DEFAULT_ORDER = "urgency"
REFRESH_SECONDS = 2  # the banner and the ranks of a job that stalls are at most this old
CHART_POINTS = 120  # one per five pixels of half a screen; with 200, a browser takes 0.1 s longer to draw ten charts
HEAT_MAP_POINTS = 60  # of a row
MIN_UPDATE_SECONDS = 6  # the shortest time between two updates of a chart
MAX_UPDATE_SECONDS = 60  # the longest one, even if the points of a chart are farther apart
JITTER_RATIO = 1 / 6  # share of the time between two updates; the updates of all viewers are spread over it
AFTER_RATIO = 1 / 3  # share of the range after the time of a link; less if the range would end in the future
MAX_DIGITS = 7  # of a rank or of a row in the URL
MAX_UNIX_SECONDS = 1e11  # the year 5138: Python can format every time before it
_FACTOR = re.compile(r"\d{1,4}(\.\d{1,4})?", re.ASCII)  # a factor of a what-if in the URL


@dataclass(frozen=True)
class Span:
    """A time range. It stays the same until the next points are due, for at most a minute."""

    start: int  # unix seconds
    end: int  # unix seconds
    resolution: int  # seconds between two points

    def window(self, step_seconds: float | None, shortest: int) -> int:
        """Return the seconds of a rate's window: the largest of `shortest`, the resolution, and four steps."""
        return max(shortest, self.resolution, round(4 * (step_seconds or 0)))


class Changes(TypedDict, total=False):
    """The fields of an Address that a choice or a link can change."""

    job_id: str | None
    rank: int | None
    host: str | None
    range: str
    at: float | None
    other: str | None
    incident: str | None
    what_if: tuple[tuple[str, float], ...]
    order: str
    first: int


@dataclass(frozen=True)
class Address:
    """The selection of a reader. If a field is None, the page shows the most urgent job, rank or host."""

    job_id: str | None = None
    rank: int | None = None
    host: str | None = None
    range: str = DEFAULT_RANGE
    at: float | None = None  # unix seconds; None: now
    other: str | None = None  # a second job to compare with
    incident: str | None = None
    what_if: tuple[tuple[str, float], ...] = ()  # names with their factors
    order: str = DEFAULT_ORDER  # the order of a long table of ranks, by its name in the hub's API
    first: int = 0  # rows of that table before those that are shown

    @classmethod
    def read(cls, params: Mapping[str, str]) -> "Address":
        """Return the address in the query of a URL."""
        return cls(
            job_id=params.get("job_id") or None,
            rank=_number(params.get("rank", "")),
            host=params.get("host") or None,
            range=params["range"] if params.get("range") in RANGES else DEFAULT_RANGE,
            at=_moment(params.get("at", "")),
            other=params.get("other") or None,
            incident=params.get("incident") or None,
            what_if=_factors(params.get("what_if", "")),
            order=params.get("order") or DEFAULT_ORDER,
            first=_number(params.get("first", "")) or 0,
        )

    def params(self) -> dict[str, str]:
        """Return the query of a URL. Defaults are left out."""
        values = {
            "job_id": self.job_id,
            "rank": self.rank,
            "host": self.host,
            "range": self.range if self.range != DEFAULT_RANGE else None,
            "at": None if self.at is None else int(self.at),
            "other": self.other,
            "incident": self.incident,
            "order": self.order if self.order != DEFAULT_ORDER else None,
            "first": self.first or None,
            "what_if": ",".join(f"{name}={factor:g}" for name, factor in self.what_if) or None,
        }
        return {name: str(value) for name, value in values.items() if value is not None}

    def url(self, view: str) -> str:
        """Return the URL of a view, relative to the other views."""
        return f"{view}?{urlencode(self.params())}"

    def moved(self, **changes: Unpack[Changes]) -> "Address":
        """Return a copy with these changes. If the job changes, rank, host, incident and rows are reset."""
        if self.job_id and changes.get("job_id", self.job_id) != self.job_id:
            changes = {"rank": None, "host": None, "incident": None, "first": 0, **changes}
        return replace(self, **changes)

    def span(
        self,
        now: float,
        max_points: int = CHART_POINTS,
        min_resolution: int = REFRESH_SECONDS,
        *,
        jitter: float = 0.0,
        job_start: float | None = None,
    ) -> Span:
        """Return the time range that charts show at the time `now`.

        `jitter`, from 0 to 1, spreads the viewers in time: a viewer with 0 gets new points first, with 1 last. If a
        shorter range shows everything since `job_start`, that range is used: it has more detail.
        """
        seconds = RANGES[self.range]
        if job_start is not None:
            until = now if self.at is None else min(now, self.at + AFTER_RATIO * seconds)
            age = until - job_start
            seconds = min((length for length in RANGES.values() if age <= length < seconds), default=seconds)
        resolution = max(min_resolution, seconds // max_points)
        update_seconds = min(resolution * ceil(MIN_UPDATE_SECONDS / resolution), MAX_UPDATE_SECONDS)
        latest = now - jitter * JITTER_RATIO * update_seconds
        if self.at is not None:
            latest = min(latest, self.at + AFTER_RATIO * seconds)
        end = int(latest) // update_seconds * update_seconds
        return Span(end - seconds, end, resolution)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None


def _factors(text: str) -> tuple[tuple[str, float], ...]:
    parts = (part.partition("=") for part in text.split(","))
    return tuple((name, float(factor)) for name, _, factor in parts if name and _FACTOR.fullmatch(factor))


def _moment(text: str) -> float | None:
    try:
        moment = float(text)
    except ValueError:
        return None
    return moment if 0 < moment < MAX_UNIX_SECONDS else None
