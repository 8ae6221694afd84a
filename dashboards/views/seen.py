"""What every view is a function of: this moment, what the reader looks at, and whom to ask for more."""

from dataclasses import dataclass
from functools import cached_property

from dashboards import marks
from dashboards.address import COLUMNS, RECORDED_SECONDS, Address, Span
from dashboards.glance import Glance
from dashboards.panels import Asked
from dashboards.queries import Hub, Prometheus
from dashboards.severity import is_remark
from dashboards.views.finding import stood
from zmon.schema.finding import Finding

RECORDED_POINTS = 2  # a rate needs as many


@dataclass(frozen=True)
class Seen:
    """A moment and a place."""

    now: Glance
    address: Address
    prometheus: Prometheus
    hub: Hub
    title: str = ""  # of the view
    is_of_a_job: bool = True
    turn: float = 0.0  # of this viewer: see Address.span

    @property
    def job_id(self) -> str | None:
        """The job that is looked at: the one in the URL, else the one that needs a look first."""
        return self.now.job_id

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those that stand at the moment that is looked at, remarks left out."""
        at, standing = self.address.at, self.now.findings
        if at is not None:
            standing = tuple(finding for finding in self.now.past if stood(finding, at))
        return tuple(finding for finding in standing if not is_remark(finding.severity))

    @property
    def span(self) -> Span:
        """What charts show."""
        return self.address.span(self.now.at, turn=self.turn, begin=self._begin)

    @property
    def rows_span(self) -> Span:
        """What heat maps show."""
        return self.address.span(self.now.at, COLUMNS, RECORDED_SECONDS, turn=self.turn, begin=self._begin)

    @cached_property
    def marks(self) -> tuple[marks.Mark, ...]:
        """What is marked on its charts. Raises Unreachable."""
        span = self.span
        at = marks.activities(self.prometheus, self.job_id, span) if self.job_id else []
        return (*at, *marks.findings(self.now.past, span), *marks.moment(self.address, span))

    @property
    def standing(self) -> tuple[object, ...]:
        """What all that is not live is drawn from: as long as it stays the same, so does that."""
        now = self.now
        blamed = [
            (finding.id, finding.cause, finding.severity, *finding.ranks, finding.resolved)
            for finding in (*now.findings, *now.elsewhere, *now.past)
        ]
        answers = now.hub_answers, now.hub_is_blind, now.prometheus_answers
        return self.address, self.span, now.job_ids, self.job_id, self._sizes, answers, blamed

    @property
    def _sizes(self) -> tuple[int | None, int | None]:
        """Ranks and hosts of the job."""
        return self.now.num_ranks, len(self.now.job.hosts if self.now.job else ()) or None

    def begin(self, span: Span) -> float:
        """From when on there is something of the job in that span: all its charts begin there."""
        return max(span.start, self._begin or span.start)

    @property
    def _begin(self) -> float | None:
        """When the job began, as far as its time is accounted for until now: not that of one that has ended."""
        job = self.now.job
        if job is None or job.state in ("done", "exited") or self.now.hub_is_blind:
            return None
        spent = sum(job.time.values())
        return self.now.at - spent if spent else None

    def asked(self, span: Span, *, is_recorded: bool = False) -> Asked:
        """As PromQL knows it. A rate of what is recorded every so often needs a window as wide."""
        window = span.window(self.now.job.step_seconds if self.now.job else None)
        return Asked(
            job_id=self.job_id or "",
            rank=self.address.rank,
            host=self.address.host,
            range=span.end - span.start,
            window=max(window, RECORDED_POINTS * RECORDED_SECONDS) if is_recorded else window,
            num_ranks=self._sizes[0],
            num_hosts=self._sizes[1],
        )
