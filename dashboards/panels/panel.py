"""`Panel` is one chart: a question, its unit and its PromQL. `Selection` fills in what the reader has selected.

The PromQL has these variables. The page computes nothing between Prometheus and the chart.

- `$job` and `$rank`: the selected job and rank as quoted label values
- `$host`: a matcher such as `host="n1"`, of the selected host or of the outlier hosts; empty for all hosts
- `$of_host`: the same with a comma before it, for use after another matcher
- `$hosts`: a query that has a series for each selected host, to join with
- `$range` and `$window`: the whole time range, and the window of a rate, such as `60s`
- `$seconds`: the window as a number
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
NUM_OUTLIERS = 32  # hosts that a heat map shows if there are more hosts than rows

Unit = Literal["seconds", "bytes", "bytes/s", "samples/s", "share", "per second", "°C", "W", "Hz", ""]


@dataclass(frozen=True)
class Selection:
    """The selection of a reader: job, rank, host, time range and rate window; and the size of the job."""

    job_id: str = ""
    rank: int | None = None
    host: str | None = None
    range: int = 900  # seconds
    window: int = 60  # seconds
    num_ranks: int | None = None
    num_hosts: int | None = None
    outlier_hosts: tuple[str, ...] = ()  # the hosts that a heat map of too many hosts shows; empty: all

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
    def _host_matcher(self) -> str:
        if self.host:
            return f"host={quoted(self.host)}"
        return f"host=~{quoted('|'.join(map(re.escape, self.outlier_hosts)))}" if self.outlier_hosts else ""

    def variables(self) -> dict[str, str]:
        """Return the values of `$job`, `$window` and the other variables of PromQL."""
        matcher = self._host_matcher
        return {
            "job": quoted(self.job_id),
            "rank": quoted("" if self.rank is None else str(self.rank)),
            "hosts": self.hosts,
            "host": matcher,
            "of_host": f", {matcher}" if matcher else "",
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

    If there are more ranks or hosts than the chart can show, it shows a summary. Most charts of lines show the largest,
    the median and the smallest value (label `spread`). A heat map has a row for each host instead of each rank.

    If there are more hosts than rows, the page first asks which hosts stand out. The heat map then has rows of these
    hosts, and rows with the largest, the median and the smallest value of all hosts.
    """

    key: str  # of the chart on its page, and of the panel in Grafana
    question: str
    unit: Unit
    legend: str  # makes the name of a series from its labels, such as `rank {rank}`
    promql: str
    shape: Literal["lines", "areas", "rows"] = "lines"  # rows: a heat map
    grows_with: Literal["ranks", "hosts"] | None = None  # there is a series for each of them
    summary_promql: str = ""  # for too many ranks or hosts
    summary_legend: str = "{spread}"
    outlier_promql: str = ""  # the hosts that stand out, a series for each
    all_hosts_promql: str = ""  # added to the summary if only the hosts that stand out are shown
    line_noun: Literal["ranks", "hosts", "GPUs", "interfaces", "directions", ""] = ""  # "": equal lines are not merged
    from_zero: bool = True  # the axis begins at 0
    min_axis_end: float | None = None  # the axis ends at this value or above
    shows_nan: bool = False  # True: a NaN is a value that the job reported, not a missing value
    is_html: bool = False  # shares drawn as HTML: the page does not load the chart library, but draws no marks
    has_marks: bool = False  # findings and activities are drawn on it
    light_values: Literal["low", "high"] = "low"  # the values that a heat map draws light, so that they catch the eye
    why_absent: str = ""  # the reason why there may be no series, or what would create them

    def query(self, selection: Selection) -> str:
        """Return the PromQL that is sent to Prometheus."""
        promql = self.summary_promql if self.shows_summary(selection) else self.promql
        if selection.outlier_hosts:
            promql = f"{promql.strip()}\nor {self.all_hosts_promql.strip()}"
        return self.fill(selection.variables(), promql)

    def has_too_many_hosts(self, selection: Selection) -> bool:
        """Return True if a heat map would have more hosts than rows."""
        return bool(self.outlier_promql) and self.shows_summary(selection) and (selection.num_hosts or 0) > MAX_ROWS

    def shows_summary(self, selection: Selection) -> bool:
        """Return True if no host is selected, and there are more ranks or hosts than the chart can show."""
        number = selection.num_ranks if self.grows_with == "ranks" else selection.num_hosts
        return bool(self.grows_with) and not selection.host and (number or 0) > self.max_series

    def legend_for(self, selection: Selection) -> str:
        """Return the legend of the query for this selection."""
        return self.summary_legend if self.shows_summary(selection) else self.legend

    @property
    def max_series(self) -> int:
        """The maximum number of lines, rows or areas. All areas are shown: without one, the stack has a wrong sum."""
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
        return re.sub(r"\$([a-z_]+)", lambda variable: variables[variable[1]], promql.strip())
