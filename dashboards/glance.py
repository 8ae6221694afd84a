"""The current state that a page shows: jobs, findings, alerts, and what zmon cannot know at the moment.

It is read once before anything is drawn, so that the whole page shows the same moment. This module judges nothing: the
findings come from the hub. A page is blind if something that it shows may be out of date, most often because a server
does not answer.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dashboards.http_requests import BACKGROUND, Unreachable
from dashboards.intervals import ONE_MACHINE, Intervals
from dashboards.queries import Hub, Prometheus, Sample, quoted
from dashboards.severity import urgency
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.job import JobView, unseen
from zmon.schema.scraping import AGENT, HUB, MADE_FOR

RANKS = """{job_id=$job, __name__=~"zmon_(rank_info|steps_total|lease_overdue_seconds\
|last_step_timestamp_seconds|collective_inflight_seconds)"}
or zmon_activity{job_id=$job} == 1"""
JOBS = "count by (job_id) (group by (job_id, rank) (zmon_rank_info))"
INTERVALS = f"max by (daemon) ({MADE_FOR})"  # if rule sets differ, the longest: a window that is too long has samples
AGENTS = 'count(up{job=~".*zmon-agent"} == 1)'
EVIDENCE_RANKS = 16  # rows of ranks in the evidence of a finding, culprits first; its incident has all ranks
FIRING = """count by (alertname, severity, job_id) (
  ALERTS{alertname=~"Zmon.+", alertname!="ZmonWatchdog", alertstate="firing"})"""


@dataclass(frozen=True)
class Rank:
    """The current state of a rank. None is unknown. If `host` is None, no agent reports the rank."""

    rank: int
    host: str | None = None
    activity: str | None = None
    step: int | None = None
    since_step_seconds: float | None = None  # since the end of its last step
    overdue_seconds: float | None = None  # beyond its lease
    waiting_seconds: float | None = None  # in a collective
    alive: bool | None = None


@dataclass(frozen=True)
class Firing:
    """An alert that fires. If `job_id` is None, it is about an agent, a hub or a host."""

    alert: str
    severity: str
    job_id: str | None


@dataclass(frozen=True)
class Glance:
    """The state at one moment, `time` in unix seconds.

    `findings` are the open findings of this job, the most severe first. `all_findings` are those and the resolved ones,
    the newest first. `elsewhere` are the open findings of other jobs. `blind` has a line for each thing that is unknown
    now.
    """

    time: float
    job_ids: tuple[str, ...] = ()
    job_id: str | None = None
    jobs: tuple[JobView, ...] = ()
    job: JobView | None = None
    intervals: Intervals = ONE_MACHINE  # those that the rules of Prometheus are made for, if it has such rules
    all_findings: tuple[Finding, ...] = ()
    findings: tuple[Finding, ...] = ()
    elsewhere: tuple[Finding, ...] = ()
    num_watched: int | None = None  # the number of ranks of the job that agents report
    firing: tuple[Firing, ...] = ()
    blind: tuple[str, ...] = ()
    hub_answers: bool = False
    hub_as_of: float | None = None  # unix seconds of the hub's last pass
    hub_is_blind: bool = False  # True: the hub reaches no agent, and its state of jobs is the last known one
    prometheus_answers: bool = False

    @property
    def as_of(self) -> float:
        """The time of the jobs and findings: while the hub is blind, that of its last known state."""
        return self.time if self.known_time is None else self.known_time

    @property
    def known_time(self) -> float | None:
        """Like `as_of`; None if a blind hub is too old to send that time."""
        return self.hub_as_of if self.hub_is_blind else self.time

    @property
    def num_ranks(self) -> int | None:
        """The number of ranks of the job, from the hub; if it is unknown, the number of watched ranks."""
        return (self.job.world_size if self.job else 0) or self.num_watched


def read_glance(prometheus: Prometheus, hub: Hub, job_id: str | None, clock: Callable[[], float] = time.time) -> Glance:
    """Return the current state of this job. If job_id is None, the most urgent job is used.

    The first requests are sent in parallel, so that the banner waits for the slowest of them, not for their sum.
    """
    BACKGROUND.submit(hub.findings)
    BACKGROUND.submit(hub.findings, job_id)
    BACKGROUND.submit(prometheus.query, JOBS)
    return _with_prometheus(_with_hub(Glance(time=clock(), job_id=job_id), hub), prometheus)


def _with_hub(glance: Glance, hub: Hub) -> Glance:
    """Add what the hub knows: jobs, those that stall first, and findings."""
    try:
        answer = hub.jobs()
        jobs = sorted(answer.jobs, key=lambda job: job.state != "stalled")
        # A stable sort: within a severity, the newest stays first.
        findings = sorted(hub.findings(), key=lambda finding: urgency(finding.severity))
        urgent_first = [finding.job_id for finding in findings] + [job.job_id for job in jobs]
        job_id = glance.job_id or next(iter(urgent_first), None)
        all_findings = hub.findings(job_id) if job_id else []
        job_findings = [finding for finding in findings if finding.job_id == job_id]
        with_evidence = hub.findings_with_evidence(job_id, EVIDENCE_RANKS) if job_id and job_findings else ()
        evidence = {finding.id: finding.evidence for finding in with_evidence}
    except Unreachable as error:
        return replace(glance, blind=unseen(hub_error=str(error)))
    return replace(
        glance,
        hub_answers=True,
        hub_is_blind=answer.blind,
        hub_as_of=answer.as_of,
        blind=unseen(hub_is_blind=answer.blind, as_of=answer.as_of),
        job_ids=tuple(job.job_id for job in jobs),
        job_id=job_id,
        jobs=tuple(jobs),
        job=next((job for job in jobs if job.job_id == job_id), None),
        all_findings=tuple(all_findings),
        findings=tuple(replace(finding, evidence=evidence.get(finding.id, Evidence())) for finding in job_findings),
        elsewhere=tuple(finding for finding in findings if finding.job_id != job_id),
    )


def _with_prometheus(glance: Glance, prometheus: Prometheus) -> Glance:
    """Add what Prometheus knows: ranks, alerts, the health of agents and hub, and jobs if the hub does not answer."""
    blind = list(glance.blind)
    try:
        watched = {sample.labels["job_id"]: int(sample.value) for sample in prometheus.query(JOBS)}
        job_ids = tuple(dict.fromkeys([*glance.job_ids, *sorted(watched)]))
        job_id = glance.job_id or next(iter(job_ids), None)
        if not prometheus.query(AGENTS):
            blind.append("Prometheus reaches no agent: the charts get no new points. Is `zmon agent` running?")
        intervals = prometheus.query_converted(INTERVALS, _intervals)
        if prometheus.query(f"absent_over_time(up[{intervals.agents.window(60)}s])"):
            effects = "findings fire no alerts, and charts get no new points"
            blind.insert(0, f"Prometheus stores no samples: {effects}. Is its disk full?")  # it may explain the others
        if glance.hub_answers and not prometheus.query(heartbeat(intervals)):
            silence = f"{intervals.chart_window('hub')} s"
            blind.append(f"The hub has finished no pass for {silence}: its findings may be out of date. See its log.")
        firing = prometheus.query_converted(FIRING, _firing)
    except Unreachable as error:
        return replace(glance, blind=(*blind, *unseen(prometheus_error=str(error))))
    return replace(
        glance,
        prometheus_answers=True,
        blind=tuple(blind),
        job_ids=job_ids,
        job_id=job_id,
        intervals=intervals,
        num_watched=watched.get(job_id or ""),
        firing=tuple(firing),
    )


def heartbeat(intervals: Intervals) -> str:
    """Return PromQL that has a series if a hub has finished a pass. It does not depend on the clock of the hub."""
    return f"changes(zmon_hub_last_pass_timestamp_seconds[{intervals.chart_window('hub')}s]) > 0"


def _intervals(samples: list[Sample]) -> Intervals:
    """Return the scrape intervals that the rules are made for; if no rule records them, those of one machine."""
    seconds = {sample.labels.get("daemon"): sample.value for sample in samples}
    try:
        return Intervals(int(seconds[AGENT]), int(seconds[HUB]))
    except (KeyError, ValueError, OverflowError):
        return ONE_MACHINE


def _firing(samples: list[Sample]) -> list[Firing]:
    """Return the alerts, the most urgent first."""
    firing = [
        Firing(sample.labels["alertname"], sample.labels.get("severity", ""), sample.labels.get("job_id"))
        for sample in samples
    ]
    return sorted(firing, key=lambda alert: (urgency(alert.severity), alert.alert, alert.job_id or ""))


def ranks(prometheus: Prometheus, glance: Glance) -> tuple[Rank, ...]:
    """Return a Rank for each rank that agents report or that the job should have by its size. Raises Unreachable.

    This is for jobs of few ranks. For a large job, the page asks the hub for the ranks that stand out.
    """
    reported = prometheus.query_converted(RANKS.replace("$job", quoted(glance.job_id or "")), _ranks)
    expected = range(glance.job.world_size if glance.job else 0)
    return tuple(reported.get(rank) or Rank(rank) for rank in sorted({*expected, *reported}))


def _ranks(samples: list[Sample]) -> dict[int, Rank]:
    metrics_by_rank: dict[int, dict[str, Sample]] = defaultdict(dict)
    for sample in samples:
        metrics_by_rank[int(sample.labels["rank"])][sample.labels["__name__"]] = sample
    return {rank: _rank(rank, metrics) for rank, metrics in metrics_by_rank.items()}


def _rank(rank: int, metrics: Mapping[str, Sample]) -> Rank:
    """Return the state of a rank from its metrics, which are by name."""
    activity = metrics.get("zmon_activity")
    steps = metrics.get("zmon_steps_total")
    last_step = metrics.get("zmon_last_step_timestamp_seconds")
    overdue = metrics.get("zmon_lease_overdue_seconds")
    in_flight = metrics.get("zmon_collective_inflight_seconds")
    return Rank(
        rank,
        host=next(sample.labels["host"] for sample in metrics.values()),
        activity=activity.labels["activity"] if activity else None,
        step=int(steps.value) if steps else None,
        since_step_seconds=max(0.0, last_step.time - last_step.value) if last_step else None,
        overdue_seconds=overdue.value if overdue else None,
        waiting_seconds=in_flight.value if in_flight else None,
    )
