"""Everything a page says at one moment, read once: jobs, findings, alerts, and what zmon cannot see just now.

Read first, drawn later, so that all of the page tells of the same moment. No verdict is made here: findings are the
hub's, and blindness is a source that does not answer.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dashboards.asking import Answer, Unreachable
from dashboards.queries import Hub, Prometheus, Sample, quoted
from zmon.schema.names import severity_order

RANKS = """{job_id=$job, __name__=~"zmon_(rank_info|steps_total|lease_overdue_seconds\
|last_step_timestamp_seconds|collective_inflight_seconds)"}
or zmon_activity{job_id=$job} == 1"""
JOBS = "count by (job_id) (zmon_rank_info)"
AGENTS = 'up{job=~".*zmon-agent"} == 1'
HEARTBEAT = "changes(zmon_hub_last_pass_timestamp_seconds[10s]) > 0"  # does it move, whatever the hub's clock says
FIRING = """count by (alertname, severity, job_id) (
  ALERTS{alertname=~"Zmon.+", alertname!="ZmonWatchdog", alertstate="firing"})"""

SEVERITIES = ("critical", "warning", "info")


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
    jobs: tuple[Answer, ...] = ()
    job: Answer | None = None
    past: tuple[Answer, ...] = ()
    findings: tuple[Answer, ...] = ()
    elsewhere: tuple[Answer, ...] = ()
    num_watched: int | None = None  # ranks of the job that agents report
    firing: tuple[Firing, ...] = ()
    blind: tuple[str, ...] = ()
    hub_answers: bool = False
    hub_is_blind: bool = False  # then what it says of jobs is what it saw last
    prometheus_answers: bool = False

    @property
    def num_ranks(self) -> int | None:
        """Of the job, as the hub knows it; else as many as are watched."""
        return (self.job or {}).get("world_size") or self.num_watched


def glance(prometheus: Prometheus, hub: Hub, wanted: str | None, clock: Callable[[], float] = time.time) -> Glance:
    """The moment of `wanted`, or if none is asked for, of the job that needs a look first."""
    return _with_history(_with_verdicts(Glance(at=clock(), job_id=wanted), hub), prometheus)


def _with_verdicts(glance: Glance, hub: Hub) -> Glance:
    """What the hub says: jobs and findings."""
    try:
        jobs, is_blind = hub.jobs()
        jobs = sorted(jobs, key=lambda job: job["state"] != "stalled")
        findings = sorted(hub.findings(), key=_severity)  # stable: newest first within each
        job_id = glance.job_id or next((one["job_id"] for one in (*findings, *jobs)), None)
        past = hub.findings(job_id) if job_id else []
        mine = [finding for finding in findings if finding["job_id"] == job_id]
        evidence = hub.evidence(job_id) if job_id and mine else {}
    except Unreachable as error:
        return replace(glance, blind=(f"{error} Until then nobody says who is to blame.",))
    return replace(
        glance,
        hub_answers=True,
        hub_is_blind=is_blind,
        blind=("The hub reaches no agent: this is what it saw last. Is `zmon agent` running?",) if is_blind else (),
        job_ids=tuple(job["job_id"] for job in jobs),
        job_id=job_id,
        jobs=tuple(jobs),
        job=next((job for job in jobs if job["job_id"] == job_id), None),
        past=tuple(past),
        findings=tuple(finding | {"evidence": evidence.get(finding["id"], {})} for finding in mine),
        elsewhere=tuple(finding for finding in findings if finding["job_id"] != job_id),
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
        firing=tuple(sorted((_firing(sample.labels) for sample in firing), key=_severity_and_name)),
    )


def _severity(finding: Answer) -> int:
    return -severity_order(finding["severity"])


def _firing(labels: dict[str, str]) -> Firing:
    return Firing(labels["alertname"], labels.get("severity", ""), labels.get("job_id"))


def _severity_and_name(firing: Firing) -> tuple[int, str, str]:
    known = SEVERITIES.index(firing.severity) if firing.severity in SEVERITIES else len(SEVERITIES)
    return known, firing.alert, firing.job_id or ""


def ranks(prometheus: Prometheus, glance: Glance) -> tuple[Rank, ...]:
    """One Rank for each rank there is or should be: the hub knows how many, the agents report what they see.

    Raises Unreachable.
    """
    seen = prometheus.now(RANKS.replace("$job", quoted(glance.job_id or "")), _ranks)
    expected = range((glance.job or {}).get("world_size") or 0)
    return tuple(seen.get(rank) or Rank(rank) for rank in sorted({*expected, *seen}))


def _ranks(samples: list[Sample]) -> dict[int, Rank]:
    facts: dict[int, dict[str, Any]] = defaultdict(dict)
    for sample in samples:
        known = facts[int(sample.labels["rank"])]
        known["host"] = sample.labels["host"]
        match sample.labels["__name__"]:
            case "zmon_activity" if sample.value == 1:
                known["activity"] = sample.labels["activity"]
            case "zmon_steps_total":
                known["step"] = int(sample.value)
            case "zmon_last_step_timestamp_seconds":
                known["since_step_seconds"] = max(0.0, sample.at - sample.value)
            case "zmon_lease_overdue_seconds":
                known["overdue_seconds"] = sample.value
            case "zmon_collective_inflight_seconds":
                known["waiting_seconds"] = sample.value
    return {rank: Rank(rank, **known) for rank, known in facts.items()}
