"""The /metrics page of the hub: its jobs, its findings, and the hub itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from zmon.metrics.names import LABEL_NAME, STEP_HISTOGRAM
from zmon.metrics.page import Page
from zmon.schema.ended_launch import OUTCOMES
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.names import BETWEEN_STEPS, DRAM, FLOPS_SOURCES, MAX_LABELS, TENSOR_PIPE, bounded_labels
from zmon.schema.shard import Shard

DECLARED = FLOPS_SOURCES[0]  # only the job itself knows its memory traffic
# Time categories whose counters begin at 0: Prometheus sees no increase in a counter that first appears with 300 s.
_OUTSIDE_STEPS = (*BETWEEN_STEPS, "stall", "restart")
# Metrics that must exist before any job has a value: doctor then knows that the page has them.
_DECLARED_AT_ONCE = (
    "zmon_hub_coverage_ratio",
    "zmon_job_efficiency_ratio",
    "zmon_job_baseline_efficiency_ratio",
    "zmon_job_recovery_seconds",
    "zmon_job_progress_ratio",
)


class HubPage(msgspec.Struct, frozen=True, kw_only=True):
    """The values on the page of a hub."""

    jobs: Iterable[JobView] = ()
    histograms: Mapping[str, tuple[Sequence[int], float]] = {}  # steps in each bucket, and total seconds, by job id
    findings: Iterable[Finding] = ()
    pass_seconds: float = 0.0  # duration of the last pass
    last_pass_time: float | None = None  # unix seconds; it does not advance while the hub is blind
    version: str = ""
    left_out: Mapping[str, int] = {}  # parts of its agent's last report that the hub could not decode, by host
    max_labels: int = MAX_LABELS  # of a job: Prometheus drops a whole scrape if one series exceeds `label_limit`
    reload_success: float | None = None  # 1: `--web.config.file` is used as it is now; None: there is none
    # Jobs that the page leaves out, since there are too many. It has only their coverage, which alerts need.
    left_out_jobs: Sequence[JobView] = ()
    shard: Shard | None = None  # a label of findings and heartbeat, so that an alert can name a shard without a hub
    ends: Mapping[str, int] = {}  # launches that ended since the hub started, by outcome
    notices: Mapping[tuple[str, str], int] = {}  # by recipient and result
    recoveries: Mapping[str, Mapping[str, float]] = {}  # the newest one of each job, in seconds by phase
    acts: Mapping[tuple[str, str, str], int] = {}  # intents since the hub started, by act, cause and result
    act_stops: Mapping[str, str] = {}  # `person` or `breaker`, by name of the stop
    labels_of_jobs: Mapping[str, Mapping[str, str]] = {}  # labels of the job for its alerts, by id of the finding


def hub_page(hub: HubPage) -> bytes:
    """Return the page."""
    page = Page()
    shard_label = {"shard": str(hub.shard)} if hub.shard else {}
    for name in _DECLARED_AT_ONCE:
        page.declare(name)
    for job in hub.jobs:
        _add_job(page, job, hub)
    for job in hub.left_out_jobs:
        page.add("zmon_hub_coverage_ratio", job.ranks_seen / job.world_size, job.job_id)
    page.add("zmon_jobs_left_out", len(hub.left_out_jobs))
    for job_id, (counts, seconds) in hub.histograms.items():
        page.add_histogram(STEP_HISTOGRAM, "Duration of the job's steps.", ("job_id", job_id), counts, seconds)
    page.declare("zmon_finding")
    for finding in hub.findings:
        _add_finding(page, finding, {**hub.labels_of_jobs.get(finding.id, {}), **shard_label})
    page.add_each("zmon_job_ends_total", dict.fromkeys(OUTCOMES, 0) | dict(hub.ends))
    _add_hub(page, hub, shard_label)
    return page.render()


def _add_finding(page: Page, finding: Finding, extra: dict[str, str]) -> None:
    """Add a series for each culprit. If the finding names no rank, add one series for its first host."""
    culprits: list[tuple[int | str, str]] = list(zip(finding.ranks, finding.hosts, strict=False))
    first_host = finding.hosts[0] if finding.hosts else ""
    for rank, host in culprits or [("", first_host)]:
        identity = finding.job_id, finding.detector, finding.cause, finding.severity
        page.add("zmon_finding", 1, *identity, rank, host, extra=extra)


def _add_hub(page: Page, hub: HubPage, shard_label: dict[str, str]) -> None:
    """Add the metrics about the hub itself: its notices, its acts, its passes and its configuration."""
    page.declare("zmon_hub_notices_total")
    page.add_each("zmon_hub_notices_total", hub.notices)
    page.declare("zmon_hub_acts_total")
    page.add_each("zmon_hub_acts_total", hub.acts)
    page.declare("zmon_hub_acts_stopped")
    page.add_each("zmon_hub_acts_stopped", dict.fromkeys(hub.act_stops.items(), 1))
    page.add_each("zmon_hub_report_left_out", hub.left_out)
    page.add("zmon_hub_pass_seconds", hub.pass_seconds)
    page.add("zmon_hub_last_pass_timestamp_seconds", hub.last_pass_time, extra=shard_label)
    page.declare("zmon_hub_expected_shard")
    for expected in hub.shard.all() if hub.shard else ():
        page.add("zmon_hub_expected_shard", 1, expected)
    page.add("zmon_build_info", 1, hub.version)
    page.declare("zmon_config_reload_success")  # without it, doctor would report that the alert on it cannot fire
    page.add("zmon_config_reload_success", hub.reload_success)


def _add_job(page: Page, job: JobView, hub: HubPage) -> None:
    page.add("zmon_job_info", 1, job.job_id, job.world_size, extra=free_labels(job.labels, hub.max_labels))
    page.add("zmon_job_throughput_samples_per_second", job.samples_per_second, job.job_id)
    page.add("zmon_hub_coverage_ratio", job.ranks_seen / job.world_size, job.job_id)
    seconds = dict.fromkeys(_OUTSIDE_STEPS, 0.0) | job.time if job.time else {}
    page.add_each("zmon_job_time_seconds_total", seconds, job.job_id)
    page.add_each("zmon_job_recovery_seconds", hub.recoveries.get(job.job_id, {}), job.job_id)
    page.add_each("zmon_job_gpu_seconds_total", job.gpu_seconds, job.job_id)
    page.add("zmon_job_goodput_ratio", job.goodput_ratio, job.job_id)
    page.add("zmon_job_progress_ratio", job.progress.ratio if job.progress else None, job.job_id)
    if (efficiency := job.efficiency) is not None:
        page.add("zmon_job_efficiency_ratio", efficiency.ratio, job.job_id, efficiency.scaling)
        page.add("zmon_job_baseline_efficiency_ratio", efficiency.recorded, job.job_id, efficiency.scaling)
        size = efficiency.reference.ranks, efficiency.reference.samples
        page.add("zmon_job_baseline_info", 1, job.job_id, efficiency.scaling, efficiency.name, *size)
    if (work := job.utilization) is not None:
        page.add("zmon_job_flops_ratio", work.step_ratio, job.job_id, work.source, "step")
        page.add("zmon_job_flops_ratio", work.wall_ratio, job.job_id, work.source, "wall")
        page.add("zmon_job_memory_bandwidth_ratio", work.memory_ratio, job.job_id, DECLARED)
        page.add("zmon_job_roofline_ratio", work.roofline_ratio, job.job_id)
    if (gpus := job.gpu_activity) is not None:
        page.add("zmon_job_flops_ratio", gpus.tensor_ratio, job.job_id, TENSOR_PIPE, "step")
        page.add("zmon_job_flops_ratio", gpus.tensor_wall_ratio, job.job_id, TENSOR_PIPE, "wall")
        page.add("zmon_job_memory_bandwidth_ratio", gpus.memory_ratio, job.job_id, DRAM)
    if (step := job.expected) is not None:
        page.add_each("zmon_job_expected_step_seconds", step.causes, job.job_id, step.by)


def free_labels(labels: Mapping[str, str], limit: int = MAX_LABELS) -> dict[str, str]:
    """Return the first labels of a job whose names Prometheus accepts, without those that Prometheus sets itself."""
    accepted = {
        name: value for name, value in labels.items() if LABEL_NAME.fullmatch(name) and name not in ("job", "instance")
    }
    return bounded_labels(accepted, limit)
