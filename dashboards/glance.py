"""Everything a page says at one moment, read once: jobs, findings, alerts, and what zmon cannot see just now.

Read first, drawn later, so that all of the page tells of the same moment. No verdict is made here: findings are the
hub's, and blindness is a source that does not answer.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from dashboards.asking import Unreachable
from dashboards.queries import Hub, Prometheus, Sample, quoted
from dashboards.severity import urgency
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.job import JobView

RANKS = """{job_id=$job, __name__=~"zmon_(rank_info|steps_total|lease_overdue_seconds\
|last_step_timestamp_seconds|collective_inflight_seconds)"}
or zmon_activity{job_id=$job} == 1"""
JOBS = "count by (job_id) (zmon_rank_info)"
AGENTS = 'up{job=~".*zmon-agent"} == 1'
HEARTBEAT = "changes(zmon_hub_last_pass_timestamp_seconds[10s]) > 0"  # does it move, whatever the hub's clock says
FIRING = """count by (alertname, severity, job_id) (
  ALERTS{alertname=~"Zmon.+", alertname!="ZmonWatchdog", alertstate="firing"})"""


@dataclass(frozen=True)
class Rank:
    """What a rank does now. None is unknown; a rank without a host is one that nobody reports."""

    rank: int
    host: str | None = None
    activity: str | None = None
    step: int | None = None
    since_step_seconds: float | None = None
    overdue_seconds: float | None = None
    waiting_seconds: float | None = None


@dataclass(frozen=True)
class Firing:
    """An alert that fires: what has people woken. Without a job it is about the watchers, or about a host."""

    alert: str
    severity: str
    job_id: str | None


@dataclass(frozen=True)
class Glance:
    """One moment. `findings` are this job's, most severe first; `blind` has a line for each thing nobody can know.

    `past` are all findings that there ever were of this job, the newest first.
    """

    at: float
    job_ids: tuple[str, ...] = ()
    job_id: str | None = None
    jobs: tuple[JobView, ...] = ()
    job: JobView | None = None
    past: tuple[Finding, ...] = ()
    findings: tuple[Finding, ...] = ()
    elsewhere: tuple[Finding, ...] = ()
    num_watched: int | None = None  # ranks of the job that agents report
    firing: tuple[Firing, ...] = ()
    blind: tuple[str, ...] = ()
    hub_answers: bool = False
    hub_is_blind: bool = False  # then what it says of jobs is what it saw last
    prometheus_answers: bool = False

    @property
    def num_ranks(self) -> int | None:
        """Of the job, as the hub knows it; else as many as are watched."""
        return (self.job.world_size if self.job else 0) or self.num_watched


def glance(prometheus: Prometheus, hub: Hub, wanted: str | None, clock: Callable[[], float] = time.time) -> Glance:
    """The moment of `wanted`, or if none is asked for, of the job that needs a look first."""
    return _with_history(_with_verdicts(Glance(at=clock(), job_id=wanted), hub), prometheus)


def _with_verdicts(glance: Glance, hub: Hub) -> Glance:
    """What the hub says: jobs and findings."""
    try:
        answer = hub.jobs()
        jobs = sorted(answer.jobs, key=lambda job: job.state != "stalled")
        findings = sorted(hub.findings(), key=lambda finding: urgency(finding.severity))  # stable: newest first in each
        urgent_first = [finding.job_id for finding in findings] + [job.job_id for job in jobs]
        job_id = glance.job_id or next(iter(urgent_first), None)
        past = hub.findings(job_id) if job_id else []
        mine = [finding for finding in findings if finding.job_id == job_id]
        evidence = {each.id: each.evidence for each in hub.with_evidence(job_id)} if job_id and mine else {}
    except Unreachable as error:
        return replace(glance, blind=(f"{error} Until then nobody says who is to blame.",))
    return replace(
        glance,
        hub_answers=True,
        hub_is_blind=answer.blind,
        blind=("The hub reaches no agent: this is what it saw last. Is `zmon agent` running?",) if answer.blind else (),
        job_ids=tuple(job.job_id for job in jobs),
        job_id=job_id,
        jobs=tuple(jobs),
        job=next((job for job in jobs if job.job_id == job_id), None),
        past=tuple(past),
        findings=tuple(replace(finding, evidence=evidence.get(finding.id, Evidence())) for finding in mine),
        elsewhere=tuple(finding for finding in findings if finding.job_id != job_id),
    )


def _with_history(glance: Glance, prometheus: Prometheus) -> Glance:
    """What Prometheus says: ranks, alerts, whether agents and hub live; and which jobs, if the hub is silent."""
    blind = list(glance.blind)
    try:
        watched = {sample.labels["job_id"]: int(sample.value) for sample in prometheus.now(JOBS)}
        job_ids = tuple(dict.fromkeys([*glance.job_ids, *sorted(watched)]))
        job_id = glance.job_id or next(iter(job_ids), None)
        if not prometheus.now(AGENTS):
            blind.append("Prometheus reaches no agent: the charts stand still. Is `zmon agent` running?")
        if glance.hub_answers and not prometheus.now(HEARTBEAT):
            blind.append("The hub has finished no pass for 10 s: what it says may be old. See its log.")
        firing = prometheus.now(FIRING)
    except Unreachable as error:
        return replace(glance, blind=(*blind, f"{error} Until then charts and ranks are unknown."))
    return replace(
        glance,
        prometheus_answers=True,
        blind=tuple(blind),
        job_ids=job_ids,
        job_id=job_id,
        num_watched=watched.get(job_id or ""),
        firing=tuple(sorted((_firing(sample.labels) for sample in firing), key=_urgency_and_name)),
    )


def _firing(labels: dict[str, str]) -> Firing:
    return Firing(labels["alertname"], labels.get("severity", ""), labels.get("job_id"))


def _urgency_and_name(firing: Firing) -> tuple[int, str, str]:
    return urgency(firing.severity), firing.alert, firing.job_id or ""


def ranks(prometheus: Prometheus, glance: Glance) -> tuple[Rank, ...]:
    """One Rank for each rank there is or should be: the hub knows how many, the agents report what they see.

    Raises Unreachable.
    """
    seen = prometheus.now(RANKS.replace("$job", quoted(glance.job_id or "")), _ranks)
    expected = range(glance.job.world_size if glance.job else 0)
    return tuple(seen.get(rank) or Rank(rank) for rank in sorted({*expected, *seen}))


def _ranks(samples: list[Sample]) -> dict[int, Rank]:
    hosts: dict[int, str] = {}
    metrics: dict[str, dict[int, Sample]] = defaultdict(dict)  # by name and rank
    for sample in samples:
        rank, name = int(sample.labels["rank"]), sample.labels["__name__"]
        hosts[rank] = sample.labels["host"]
        if name != "zmon_activity" or sample.value == 1:
            metrics[name][rank] = sample

    def value(name: str, rank: int) -> float | None:
        sample = metrics[name].get(rank)
        return None if sample is None else sample.value

    def rank_of(rank: int, host: str) -> Rank:
        activity, steps = metrics["zmon_activity"].get(rank), metrics["zmon_steps_total"].get(rank)
        last = metrics["zmon_last_step_timestamp_seconds"].get(rank)
        return Rank(
            rank,
            host,
            activity=activity.labels["activity"] if activity else None,
            step=int(steps.value) if steps else None,
            since_step_seconds=max(0.0, last.at - last.value) if last else None,
            overdue_seconds=value("zmon_lease_overdue_seconds", rank),
            waiting_seconds=value("zmon_collective_inflight_seconds", rank),
        )

    return {rank: rank_of(rank, host) for rank, host in hosts.items()}
