"""What is marked on a chart of a job: findings, what it was at when it did not train, the moment a link leads to."""

from dataclasses import dataclass
from typing import Literal

from dashboards.address import Address, Span
from dashboards.queries import Prometheus, quoted
from dashboards.severity import is_remark
from zmon.schema.finding import Finding

ACTIVITIES = 'max by (activity) (zmon:job_activity:ranks{job_id=$job, activity!~"train|done"}) > 0'
MOST_FINDINGS = 12  # on one chart: of more the newest


@dataclass(frozen=True)
class Mark:
    """From when to when; unix seconds."""

    kind: Literal["finding", "activity", "moment", "span"]
    label: str
    start: float
    end: float
    severity: str = ""


def findings(past: tuple[Finding, ...], span: Span) -> list[Mark]:
    """Those that stood within the span, as far as they did."""
    stood = [finding for finding in past if finding.onset < span.end and _end(finding, span) > span.start]
    return [
        Mark("finding", finding.cause, max(finding.onset, span.start), _end(finding, span), finding.severity)
        for finding in [finding for finding in stood if not is_remark(finding.severity)][:MOST_FINDINGS]
    ]


def activities(prometheus: Prometheus, job_id: str, span: Span) -> list[Mark]:
    """Stretches in which some ranks evaluated, wrote a checkpoint or started. Raises Unreachable."""
    table = prometheus.over(ACTIVITIES.replace("$job", quoted(job_id)), "{activity}", span).table
    marks = []
    for activity, rows in table.dropna(subset=["value"]).groupby("series", sort=False):
        at = rows["time"].map(lambda time: time.timestamp())
        stretches = (at.diff() > span.resolution).cumsum()
        marks += [
            Mark("activity", str(activity), float(each.iloc[0]), float(each.iloc[-1] + span.resolution))
            for _, each in at.groupby(stretches)
        ]
    return marks


def moment(address: Address, span: Span) -> list[Mark]:
    """Where a link led to."""
    if address.at is None or not span.start <= address.at <= span.end:
        return []
    return [Mark("moment", "", address.at, address.at)]


def _end(finding: Finding, span: Span) -> float:
    return min(finding.resolved or span.end, span.end)
