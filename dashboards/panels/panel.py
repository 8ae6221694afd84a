"""The type of a chart: the question that it answers, its unit, and the PromQL that a reader can paste and check.

The PromQL has variables: `$job` and `$rank` are quoted label values, `$hosts` is a query for the series of the
selected hosts, `$host` is a matcher if one host is selected, `$of_host` the same after a comma, `$range` is the whole
time range, `$window` the window of a rate, and `$seconds` the same as a number. `legend` makes the name of a series
from its labels. The page computes nothing between Prometheus and the chart.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dashboards.intervals import Source
from dashboards.queries import MAX_SERIES, quoted

SERIES = re.compile(r"\bzmon(?::\w+:\w+|_[a-z0-9_]+)")
MAX_AREAS = 30  # more than all time categories, phases and ops
MAX_ROWS = 128  # rows of a heat map; each has three pixels on a laptop
NUM_STANDING_OUT = 32  # hosts that a heat map shows if there are more hosts than rows

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
    standing_out: tuple[str, ...] = ()  # the hosts that a heat map of too many hosts shows; empty: all

    @property
    def hosts(self) -> str:
        """PromQL for the selected hosts, as series to join with: one host, all hosts of the job, or all hosts."""
        if self.host:
            return f"group by (host) (zmon:host_cpu_busy:ratio{{host={quoted(self.host)}}})"
        if self.job_id:
            ranks = f"zmon:job_host:ranks{{job_id={quoted(self.job_id)}}}"
            # With `@ end()` it is evaluated once, not for each point.
            return f"group by (host) (last_over_time({ranks}[{self.range}s] @ end()))"
        return "group by (host) (zmon:host_cpu_busy:ratio)"

    @property
    def _of_host(self) -> str:
        if self.host:
            return f", host={quoted(self.host)}"
        return f", host=~{quoted('|'.join(map(re.escape, self.standing_out)))}" if self.standing_out else ""

    def variables(self) -> dict[str, str]:
        """Return the values of `$job`, `$window` and the other variables of PromQL."""
        return {
            "job": quoted(self.job_id),
            "rank": quoted("" if self.rank is None else str(self.rank)),
            "hosts": self.hosts,
            "host": self._of_host.removeprefix(", "),
            "of_host": self._of_host,
            "range": f"{self.range}s",
            "window": f"{self.window}s",
            "seconds": str(self.window),
        }


def series_names(promql: str) -> list[str]:
    """Return the names of zmon's series in the PromQL, in its order."""
    return list(dict.fromkeys(SERIES.findall(re.sub(r'"[^"]*"', '""', promql))))


def is_of_hub(name: str) -> bool:
    """Return True if the hub exports the metric, False if agents do or a rule records it."""
    return name.startswith(("zmon_job_", "zmon_hub_", "zmon_finding"))


@dataclass(frozen=True)
class Panel:
    """One chart.

    `grows`: the chart has a series for each rank or for each host. If there are too many, the chart shows the query
    `many` instead: a chart of lines shows the largest, the median and the smallest value (label `spread`), and a heat
    map has a row for each host instead of each rank. If even the hosts are too many, the page first sends
    `standing_out`, whose series are the hosts to show. The heat map then has the rows of these hosts, and those of
    `band`: the largest, the median and the smallest value of all hosts.
    """

    key: str
    question: str
    unit: Unit
    legend: str
    promql: str
    shape: Literal["lines", "areas", "rows"] = "lines"
    grows: Literal["ranks", "hosts"] | None = None
    # What lines stand for; equal lines are drawn as one. Empty: each line has a meaning of its own.
    noun: Literal["ranks", "hosts", "GPUs", "interfaces", "directions", ""] = ""
    many: str = ""
    standing_out: str = ""
    band: str = ""
    from_zero: bool = True
    shows_nan: bool = False  # True: a NaN is a value that the job reported, not a missing value
    reaches: float | None = None  # the axis reaches at least this value
    is_plain: bool = False  # shares, drawn without the code that other charts load; no marks
    marked: bool = False  # findings and activities are drawn on it
    light_is: Literal["low", "high"] = "low"  # the values of rows that are light and catch the eye
    absent: str = ""  # the reason why there may be no series, or what would create them

    def query(self, selection: Selection) -> str:
        """Return the PromQL that is sent to Prometheus."""
        promql = self.many if self.is_summed_up(selection) else self.promql
        if selection.standing_out:
            promql = f"{promql.strip()}\nor {self.band.strip()}"
        return self.fill(selection.variables(), promql)

    def has_too_many_hosts(self, selection: Selection) -> bool:
        """Return True if a heat map would have more hosts than rows."""
        return bool(self.standing_out) and self.is_summed_up(selection) and (selection.num_hosts or 0) > MAX_ROWS

    def is_summed_up(self, selection: Selection) -> bool:
        """Return True if no host is selected, and there are more ranks or hosts than the chart can show."""
        number = selection.num_ranks if self.grows == "ranks" else selection.num_hosts
        return bool(self.grows) and not selection.host and (number or 0) > self.max_series

    def series_name(self, selection: Selection) -> str:
        """Return the format of the names of series. The query `many` has fewer labels."""
        if not self.is_summed_up(selection):
            return self.legend
        (labels,) = re.findall(r"\bby \((.+?)\)", self.many)[:1]
        return " ".join(f"{{{label.strip()}}}" for label in labels.split(","))

    @property
    def max_series(self) -> int:
        """The maximum number of lines, rows or areas. It is high for areas, as only a complete stack is a sum."""
        return {"lines": MAX_SERIES, "rows": MAX_ROWS, "areas": MAX_AREAS}[self.shape]

    @property
    def source(self) -> Source:
        """The source of the series, which decides how long a window must be."""
        names = self.series()
        if any(name.startswith("zmon:rank_") for name in names):
            return "ranks"
        return "hub" if all(map(is_of_hub, names)) else "both"

    def series(self) -> list[str]:
        """Return the names of the series that the PromQL reads, in its order."""
        return series_names(self.fill(dict.fromkeys(Selection().variables(), ""), self.promql))

    @staticmethod
    def fill(variables: Mapping[str, str], promql: str) -> str:
        """Return the PromQL with these values for `$job`, `$window` and the other variables."""
        return re.sub(r"\$([a-z_]+)", lambda name: variables[name[1]], promql.strip())
