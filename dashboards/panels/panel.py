"""One chart: the question it answers, its unit, and the PromQL that a reader can paste and check.

In the PromQL `$job` and `$rank` stand for quoted label values, `$hosts` for series of the hosts that are looked at,
`$of_host` for a matcher where one host is, `$range` for all the time that is looked at, `$window` for a rate window and
`$seconds` for as many; `legend` makes a series' name of its labels. The page computes nothing between Prometheus and
the chart.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dashboards.queries import MOST_SERIES, quoted

SERIES = re.compile(r"\bzmon(?::\w+:\w+|_[a-z0-9_]+)")
MOST_AREAS = 30  # causes, phases and ops
MOST_ROWS = 128  # of a heat map: three pixels each on a laptop

Unit = Literal["seconds", "bytes", "bytes/s", "samples/s", "share", "per second", "°C", "W", "Hz", ""]


@dataclass(frozen=True)
class Asked:
    """What is looked at, as PromQL knows it: of which job, rank and hosts, how smoothed, and how many there are."""

    job_id: str = ""
    rank: int | None = None
    host: str | None = None
    range: int = 900  # seconds
    window: int = 60
    num_ranks: int | None = None
    num_hosts: int | None = None

    @property
    def hosts(self) -> str:
        """The hosts that are looked at, as series to join with: one, all that a job had in that time, or all."""
        if self.host:
            return f"group by (host) (zmon:host_cpu_busy:ratio{{host={quoted(self.host)}}})"
        if self.job_id:
            ranks = f"zmon:job_host:ranks{{job_id={quoted(self.job_id)}}}"
            return f"group by (host) (last_over_time({ranks}[{self.range}s] @ end()))"  # read once, not for each point
        return "group by (host) (zmon:host_cpu_busy:ratio)"

    def words(self) -> dict[str, str]:
        """What stands in PromQL for `$job`, `$window` and the like."""
        return {
            "job": quoted(self.job_id),
            "rank": quoted("" if self.rank is None else str(self.rank)),
            "hosts": self.hosts,
            "of_host": f", host={quoted(self.host)}" if self.host else "",
            "range": f"{self.range}s",
            "window": f"{self.window}s",
            "seconds": str(self.window),
        }


@dataclass(frozen=True)
class Panel:
    """One chart. Once the ranks or hosts are too many that it `grows` with, it shows what `many` asks for: as lines the
    largest, the median and the smallest (label `spread`), as rows hosts instead of ranks.
    """

    key: str
    question: str
    unit: Unit
    legend: str
    promql: str
    shape: Literal["lines", "areas", "rows"] = "lines"
    grows: Literal["ranks", "hosts"] | None = None
    many: str = ""
    from_zero: bool = True
    nan_is_news: bool = False  # and no missing value
    reaches: float | None = None  # so far the axis goes, at least
    marked: bool = False  # findings and what the job was at are drawn on it
    light_is: Literal["low", "high"] = "low"  # of rows: what catches the eye
    absent: str = ""  # what would make it known, where it is not

    def asked(self, of: Asked) -> str:
        """The PromQL as it is sent."""
        return self.filled(of.words(), self.many if self.are_many(of) else self.promql)

    def are_many(self, of: Asked) -> bool:
        """Whether there are more than it has lines or rows for, and nobody chose one of the hosts."""
        number = of.num_ranks if self.grows == "ranks" else of.num_hosts
        return bool(self.grows) and not of.host and (number or 0) > self.most

    def name(self, of: Asked) -> str:
        """What makes a series' name of its labels: of many ones those that are left."""
        if not self.are_many(of):
            return self.legend
        (labels,) = re.findall(r"\bby \((.+?)\)", self.many)[:1]
        return " ".join(f"{{{label.strip()}}}" for label in labels.split(","))

    @property
    def most(self) -> int:
        """Lines, rows or areas: what is stacked is a sum only with all that belongs to it."""
        return {"lines": MOST_SERIES, "rows": MOST_ROWS, "areas": MOST_AREAS}[self.shape]

    @property
    def is_recorded(self) -> bool:
        """Whether it is drawn from ranks' counters as rules record them, less often than they are scraped."""
        return any(name.startswith("zmon:rank_") for name in self.series())

    def series(self) -> list[str]:
        """The names of what it is drawn from, in the order in which they are asked for."""
        text = self.filled(dict.fromkeys(Asked().words(), ""), self.promql)
        return list(dict.fromkeys(SERIES.findall(re.sub(r'"[^"]*"', '""', text))))

    @staticmethod
    def filled(words: Mapping[str, str], promql: str) -> str:
        """The PromQL with these for `$job`, `$window` and the like."""
        return re.sub(r"\$([a-z_]+)", lambda name: words[name[1]], promql.strip())
