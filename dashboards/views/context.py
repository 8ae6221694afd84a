"""The input of every view: the current state, the selection of the reader, and the servers to ask."""

from dataclasses import dataclass
from functools import cached_property

from dashboards import marks
from dashboards.address import HEAT_MAP_POINTS, Address, Span
from dashboards.glance import Glance
from dashboards.intervals import Source
from dashboards.panels import Selection
from dashboards.queries import Hub, Prometheus
from dashboards.severity import is_info
from dashboards.views.finding import was_open
from zmon.schema.finding import Finding
from zmon.schema.job import JobView


@dataclass(frozen=True)
class ViewContext:
    """The current state, the address, and the servers, for one view."""

    now: Glance
    address: Address
    prometheus: Prometheus
    hub: Hub
    title: str = ""  # the name of the page
    shows_one_job: bool = True
    jitter: float = 0.0  # from 0 to 1: when this viewer gets new points, see Address.span

    @property
    def job_id(self) -> str | None:
        """The job of the page: the job in the URL, else the most urgent job."""
        return self.now.job_id

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that are open now, or were open at the time in the URL, without info findings."""
        moment = self.address.at
        findings = self.now.findings
        if moment is not None:
            findings = tuple(finding for finding in self.now.all_findings if was_open(finding, moment))
        return tuple(finding for finding in findings if not is_info(finding.severity))

    @property
    def span(self) -> Span:
        """The time range of charts."""
        return self.address.span(self.now.time, jitter=self.jitter, job_start=self._job_start)

    @property
    def rows_span(self) -> Span:
        """The time range of heat maps."""
        recorded_seconds = self.now.intervals.recorded.seconds  # points at shorter intervals would repeat values
        return self.address.span(
            self.now.time, HEAT_MAP_POINTS, recorded_seconds, jitter=self.jitter, job_start=self._job_start
        )

    @cached_property
    def marks(self) -> tuple[marks.Mark, ...]:
        """The marks on the charts. Raises Unreachable."""
        span = self.span
        activities = marks.activities(self.prometheus, self.job_id, span) if self.job_id else []
        return (*activities, *marks.findings(self.now.all_findings, span), *marks.moment(self.address, span))

    @property
    def static_state(self) -> tuple[object, ...]:
        """The input of all parts that are not live. If it changes, the whole page is drawn again."""
        now = self.now
        findings = [
            (finding.id, finding.cause, finding.severity, *finding.ranks, finding.resolved)
            for finding in (*now.findings, *now.elsewhere, *now.all_findings)
        ]
        servers = (now.hub_answers, now.hub_is_blind, now.prometheus_answers)
        sizes = (now.num_ranks, self._num_hosts)
        return (self.address, self.span, now.intervals, now.job_ids, self.job_id, sizes, servers, findings)

    @property
    def _num_hosts(self) -> int | None:
        """The number of hosts of the job; None: unknown."""
        return len(self.now.job.hosts if self.now.job else ()) or None

    def begin(self, span: Span) -> float:
        """Return when the charts begin: at the start of the span, or when the job began, if that is later."""
        return max(span.start, self._job_start or span.start)

    @property
    def _job_start(self) -> float | None:
        """The start of the job; on a page of all jobs, of the first job. None if unknown, or after the URL's time."""
        jobs = [self.now.job] if self.shows_one_job else [*self.now.jobs]
        starts = [self._start_of(job) for job in jobs]
        known = [start for start in starts if start is not None]
        first = min(known) if known and len(known) == len(starts) else None
        return first if first is not None and first <= (self.address.at or self.now.time) else None

    def _start_of(self, job: JobView | None) -> float | None:
        """Return the start of a job: now minus the sum of its time account. None if it has ended or has no account."""
        if job is None or job.state in ("done", "exited") or self.now.hub_is_blind:
            return None
        job_seconds = sum(job.time.values())
        return self.now.time - job_seconds if job_seconds else None

    def selection(self, span: Span, source: Source = "both") -> Selection:
        """Return the selection for PromQL, with a window that has enough samples of series of this source."""
        shortest = self.now.intervals.chart_window(source)
        return Selection(
            job_id=self.job_id or "",
            rank=self.address.rank,
            host=self.address.host,
            range=span.end - span.start,
            window=span.window(self.now.job.step_seconds if self.now.job else None, shortest),
            num_ranks=self.now.num_ranks,
            num_hosts=self._num_hosts,
        )
