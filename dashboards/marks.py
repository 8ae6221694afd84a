"""Marks on the charts of a job: findings, activities other than training, and the time of a link."""

from dataclasses import dataclass
from typing import Literal

from dashboards.address import Address, Span
from dashboards.queries import Prometheus, quoted
from dashboards.severity import is_info
from zmon.schema.finding import Finding

ACTIVITIES = 'max by (activity) (zmon:job_activity:ranks{job_id=$job, activity!~"train|done"}) > 0'
MAX_FINDINGS = 12  # on one chart


@dataclass(frozen=True)
class Mark:
    """A mark on a chart, from `start` to `end` in unix seconds."""

    kind: Literal["finding", "activity", "moment", "span"]  # moment: the time of a link; span: an end of the time axis
    label: str  # the cause of the finding, or the activity
    start: float
    end: float
    severity: str = ""


def findings(all_findings: tuple[Finding, ...], span: Span) -> list[Mark]:
    """Return the marks of the newest findings that were open within the span, clipped to it. The newest come first."""
    shown = [
        finding
        for finding in all_findings
        if finding.onset < span.end and _end(finding, span) > span.start and not is_info(finding.severity)
    ]
    return [
        Mark("finding", finding.cause, max(finding.onset, span.start), _end(finding, span), finding.severity)
        for finding in shown[:MAX_FINDINGS]
    ]


def activities(prometheus: Prometheus, job_id: str, span: Span) -> list[Mark]:
    """Return the marks of the intervals in which some ranks did not train: for example, they saved a checkpoint.

    Raises Unreachable.
    """
    table = prometheus.query_range(ACTIVITIES.replace("$job", quoted(job_id)), "{activity}", span).table
    marks = []
    for activity, rows in table.dropna(subset=["value"]).groupby("series", sort=False):
        times = rows["time"].map(lambda time: time.timestamp())
        intervals = (times.diff() > span.resolution).cumsum()
        marks += [
            Mark("activity", str(activity), float(interval.iloc[0]), float(interval.iloc[-1] + span.resolution))
            for _, interval in times.groupby(intervals)
        ]
    return marks


def moment(address: Address, span: Span) -> list[Mark]:
    """Return the mark of the time in the URL, if it is within the span."""
    if address.at is None or not span.start <= address.at <= span.end:
        return []
    return [Mark("moment", "", address.at, address.at)]


def _end(finding: Finding, span: Span) -> float:
    return min(finding.resolved or span.end, span.end)
