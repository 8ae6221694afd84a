"""Everything the page says at one moment, read once: jobs, findings, ranks, and what zmon cannot see just now.

Read first, drawn later, so that all of the page tells of the same moment. No verdict is made here: findings are the
hub's, and blindness is a source that does not answer.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from dashboards.queries import Hub, Prometheus, Sample, Unreachable, quoted

RANKS = """{job_id=$job, __name__=~"zmon_(rank_info|steps_total|activity|lease_overdue_seconds\
|last_step_timestamp_seconds|collective_inflight_seconds)"}"""
JOBS = "count by (job_id) (zmon_rank_info)"
AGENTS = 'up{job=~".*zmon-agent"} == 1'
HEARTBEAT = "changes(zmon_hub_last_pass_timestamp_seconds[10s]) > 0"  # does it move, whatever the hub's clock says
FIRING = """count by (alertname) (ALERTS{alertname!="ZmonWatchdog", alertstate="firing", job_id=$job}
or ALERTS{alertname!="ZmonWatchdog", alertstate="firing", job_id=""})"""

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
class Glance:
    """One moment. `findings` are this job's, most severe first; `blind` has a line for each thing nobody can know."""

    at: float
    job_ids: tuple[str, ...] = ()
    job_id: str | None = None
    job: dict | None = None
    findings: tuple[dict, ...] = ()
    elsewhere: tuple[dict, ...] = ()
    ranks: tuple[Rank, ...] = ()
    firing: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()
    hub_answers: bool = False
    prometheus_answers: bool = False


def glance(prometheus: Prometheus, hub: Hub, wanted: str | None, clock: Callable[[], float] = time.time) -> Glance:
    """The moment of `wanted`, or if none is asked for, of the job that needs a look first."""
    return _with_history(_with_verdicts(Glance(at=clock(), job_id=wanted), hub), prometheus)


def _with_verdicts(glance: Glance, hub: Hub) -> Glance:
    """What the hub says: jobs and findings."""
    try:
        (jobs, is_blind), findings = hub.jobs(), hub.findings()
    except Unreachable as error:
        return replace(glance, blind=(f"{error} Until then nobody says who is to blame.",))
    findings.sort(key=lambda finding: SEVERITIES.index(finding["severity"]))  # stable: newest first within each
    first = next((one["job_id"] for one in (*findings, *jobs)), None)
    job_id = glance.job_id or first
    return replace(
        glance,
        hub_answers=True,
        blind=("The hub reaches no agent: this is what it saw last. Is `zmon agent` running?",) if is_blind else (),
        job_ids=tuple(job["job_id"] for job in jobs),
        job_id=job_id,
        job=next((job for job in jobs if job["job_id"] == job_id), None),
        findings=tuple(finding for finding in findings if finding["job_id"] == job_id),
        elsewhere=tuple(finding for finding in findings if finding["job_id"] != job_id),
    )


def _with_history(glance: Glance, prometheus: Prometheus) -> Glance:
    """What Prometheus says: ranks, alerts, whether agents and hub live; and which jobs, if the hub is silent."""
    blind = list(glance.blind)
    try:
        watched = sorted(sample.labels["job_id"] for sample in prometheus.now(JOBS))
        job_ids = tuple(dict.fromkeys([*glance.job_ids, *watched]))
        job_id = glance.job_id or next(iter(job_ids), None)
        if not prometheus.now(AGENTS):
            blind.append("Prometheus reaches no agent: the charts stand still. Is `zmon agent` running?")
        if glance.hub_answers and not prometheus.now(HEARTBEAT):
            blind.append("The hub has finished no pass for 10 s: what it says may be old. See its log.")
        ranks = prometheus.now(RANKS.replace("$job", quoted(job_id))) if job_id else []
        firing = prometheus.now(FIRING.replace("$job", quoted(job_id or "")))
    except Unreachable as error:
        return replace(glance, blind=(*blind, f"{error} Until then charts and ranks are unknown."))
    return replace(
        glance,
        prometheus_answers=True,
        blind=tuple(blind),
        job_ids=job_ids,
        job_id=job_id,
        ranks=_ranks(ranks, glance.job),
        firing=tuple(sorted(sample.labels["alertname"] for sample in firing)),
    )


def _ranks(samples: list[Sample], job: dict | None) -> tuple[Rank, ...]:
    """One Rank for each rank there is or should be: the hub knows how many, the agents report what they see."""
    facts: dict[int, dict] = defaultdict(dict)
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
    expected = range((job or {}).get("world_size") or 0)
    return tuple(Rank(rank, **facts.get(rank, {})) for rank in sorted({*expected, *facts}))
