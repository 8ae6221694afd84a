"""The type of a chart: the question that it answers, its unit, and the PromQL that a reader can paste and check.

The PromQL has variables: `$job` and `$rank` are quoted label values, `$hosts` is a query for the series of the
selected hosts, `$of_host` is a matcher if one host is selected, `$range` is the whole time range, `$window` the window
of a rate, and `$seconds` the same as a number. `legend` makes the name of a series from its labels. The page computes
nothing between Prometheus and the chart.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dashboards.queries import MOST_SERIES, quoted

SERIES = re.compile(r"\bzmon(?::\w+:\w+|_[a-z0-9_]+)")
MOST_AREAS = 30  # time categories, phases and ops
MOST_ROWS = 128  # of a heat map: three pixels each on a laptop

Unit = Literal["seconds", "bytes", "bytes/s", "samples/s", "share", "per second", "°C", "W", "Hz", ""]


@dataclass(frozen=True)
class Selection:
    """The selection of a reader for PromQL: job, rank, host, time range, rate window, and the size of the job."""

    job_id: str = ""
    rank: int | None = None
    host: str | None = None
    range: int = 900  # seconds
    window: int = 60  # seconds
    num_ranks: int | None = None
    num_hosts: int | None = None

    @property
    def hosts(self) -> str:
        """PromQL for the selected hosts, as series to join with: one host, all of the job in that range, or all."""
        if self.host:
            return f"group by (host) (zmon:host_cpu_busy:ratio{{host={quoted(self.host)}}})"
        if self.job_id:
            ranks = f"zmon:job_host:ranks{{job_id={quoted(self.job_id)}}}"
            # `@ end()`: evaluated once, not for each point.
            return f"group by (host) (last_over_time({ranks}[{self.range}s] @ end()))"
        return "group by (host) (zmon:host_cpu_busy:ratio)"

    def variables(self) -> dict[str, str]:
        """Return the values of `$job`, `$window` and the other variables of PromQL."""
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
    """One chart.

    `grows` names what the number of its series grows with. If there are too many ranks or hosts, the chart shows the
    query `many` instead: a chart of lines shows the largest, the median and the smallest value (label `spread`), a heat
    map has a row for each host instead of each rank.
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
    nan_is_news: bool = False  # a NaN is a value that the job reported, not a missing one
    reaches: float | None = None  # the axis reaches at least this value
    marked: bool = False  # findings and activities are drawn on it
    light_is: Literal["low", "high"] = "low"  # of rows: the value that catches the eye
    absent: str = ""  # the reason why there may be no series, or what would create them

    def query(self, selection: Selection) -> str:
        """Return the PromQL that is sent to Prometheus."""
        return self.fill(selection.variables(), self.many if self.is_summed_up(selection) else self.promql)

    def is_summed_up(self, selection: Selection) -> bool:
        """Return True if there are more ranks or hosts than lines or rows, and no host is selected."""
        number = selection.num_ranks if self.grows == "ranks" else selection.num_hosts
        return bool(self.grows) and not selection.host and (number or 0) > self.most

    def series_name(self, selection: Selection) -> str:
        """Return the format of a series' name. A chart that is summed up has fewer labels."""
        if not self.is_summed_up(selection):
            return self.legend
        (labels,) = re.findall(r"\bby \((.+?)\)", self.many)[:1]
        return " ".join(f"{{{label.strip()}}}" for label in labels.split(","))

    @property
    def most(self) -> int:
        """The limit of lines, rows or areas. Areas have a high one: a stack is a sum only if it is complete."""
        return {"lines": MOST_SERIES, "rows": MOST_ROWS, "areas": MOST_AREAS}[self.shape]

    @property
    def is_recorded(self) -> bool:
        """True if it is drawn from recorded counters of ranks, which have fewer points than scraped ones."""
        return any(name.startswith("zmon:rank_") for name in self.series())

    def series(self) -> list[str]:
        """Return the names of the series that the PromQL reads, in its order."""
        text = self.fill(dict.fromkeys(Selection().variables(), ""), self.promql)
        return list(dict.fromkeys(SERIES.findall(re.sub(r'"[^"]*"', '""', text))))

    @staticmethod
    def fill(variables: Mapping[str, str], promql: str) -> str:
        """Return the PromQL with these values for `$job`, `$window` and the other variables."""
        return re.sub(r"\$([a-z_]+)", lambda name: variables[name[1]], promql.strip())
