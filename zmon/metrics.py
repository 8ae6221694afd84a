"""Every Prometheus metric zmon exports, by name: the only file that spells one.

A value of None is left out of the page: unknown is not zero. Names and labels are the contract; units are base
units (Prometheus naming practices).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from zmon.hardware import HostSample, SourceStatus
from zmon.records import ACTIVITIES, AgentReport, Finding, JobView, RankState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STEP_SECONDS_BOUNDS = tuple(0.001 * 2**k for k in range(17))

RANK = ("job_id", "rank", "host")
_LABEL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


class Spec(NamedTuple):
    """A metric's type, labels and what it tells."""

    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    help: str


SPECS: dict[str, Spec] = {
    "zmon_rank_info": Spec("gauge", (*RANK, "local_rank", "attempt", "device", "backend"), "One per rank; always 1."),
    "zmon_steps_total": Spec("counter", RANK, "Optimizer updates done."),
    "zmon_samples_total": Spec("counter", RANK, "Samples this rank trained on."),
    "zmon_lookups_total": Spec("counter", RANK, "Embedding rows this rank looked up."),
    "zmon_step_seconds_total": Spec("counter", RANK, "Time in steps."),
    "zmon_last_step_timestamp_seconds": Spec("gauge", RANK, "When the last step ended, unix time."),
    "zmon_last_checkpoint_timestamp_seconds": Spec("gauge", RANK, "When the last checkpoint ended, unix time."),
    "zmon_lease_overdue_seconds": Spec("gauge", RANK, "How long past its lease the rank shows no progress; 0 within it."),
    "zmon_activity": Spec("gauge", (*RANK, "activity"), "1 for what the rank is there for now."),
    "zmon_phase_seconds_total": Spec("counter", (*RANK, "phase"), "The rank's own time in steps by phase."),
    "zmon_collectives_total": Spec("counter", (*RANK, "op"), "Collectives entered."),
    "zmon_collective_seconds_total": Spec("counter", (*RANK, "op"), "Time collectives were in flight."),
    "zmon_collective_exposed_seconds_total": Spec("counter", (*RANK, "op"), "Time the rank waited in collectives."),
    "zmon_collective_bytes_total": Spec("counter", (*RANK, "op", "direction"), "Size of the tensors handed in and out."),
    "zmon_collective_network_bytes_total": Spec("counter", (*RANK, "direction"), "Modelled bytes to and from other hosts."),
    "zmon_collective_inflight_seconds": Spec("gauge", RANK, "Age of the collective the rank is in; 0 when in none."),
    "zmon_step_nic_bytes_total": Spec("counter", (*RANK, "direction"), "Bytes on the job's interface during steps; local rank 0 only."),
    "zmon_device_memory_bytes": Spec("gauge", (*RANK, "kind"), "Memory of the device's caching allocator."),
    "zmon_report": Spec("gauge", (*RANK, "key"), "What the job reported, loss and the like."),
    "zmon_probe_overhead_seconds_total": Spec("counter", RANK, "Time the probe itself took."),
    "zmon_probe_dropped_records_total": Spec("counter", RANK, "Marks the probe could not note."),
    "zmon_process_resident_bytes": Spec("gauge", RANK, "Resident memory of the rank's process."),
    "zmon_nic_receive_bytes_total": Spec("counter", ("host", "device", "transport"), "Bytes received."),
    "zmon_nic_transmit_bytes_total": Spec("counter", ("host", "device", "transport"), "Bytes sent."),
    "zmon_nic_up": Spec("gauge", ("host", "device", "transport"), "1 when the link is up."),
    "zmon_nic_speed_bytes_per_second": Spec("gauge", ("host", "device", "transport"), "Nominal speed of the link."),
    "zmon_nic_errors_total": Spec("counter", ("host", "device", "counter"), "Errors and drops by kernel counter."),
    "zmon_gpu_memory_used_bytes": Spec("gauge", ("host", "gpu", "uuid"), "Memory in use on the card."),
    "zmon_gpu_memory_total_bytes": Spec("gauge", ("host", "gpu", "uuid"), "Memory of the card."),
    "zmon_gpu_utilization_ratio": Spec("gauge", ("host", "gpu", "uuid"), "Share of time a kernel was running."),
    "zmon_gpu_power_watts": Spec("gauge", ("host", "gpu", "uuid"), "Power drawn."),
    "zmon_gpu_temperature_celsius": Spec("gauge", ("host", "gpu", "uuid"), "Temperature of the chip."),
    "zmon_host_cpu_seconds_total": Spec("counter", ("host", "mode"), "CPU time of all cores."),
    "zmon_host_memory_available_bytes": Spec("gauge", ("host",), "Memory that can be had without swapping."),
    "zmon_host_memory_total_bytes": Spec("gauge", ("host",), "Memory of the host."),
    "zmon_host_swap_used_bytes": Spec("gauge", ("host",), "Swap in use."),
    "zmon_source_up": Spec("gauge", ("host", "source"), "1 when the source last answered."),
    "zmon_source_duration_seconds": Spec("gauge", ("host", "source"), "How long its last reading took."),
    "zmon_source_last_success_timestamp_seconds": Spec("gauge", ("host", "source"), "When it last answered, unix time."),
    "zmon_source_errors_total": Spec("counter", ("host", "source"), "Readings that failed."),
    "zmon_agent_cpu_seconds_total": Spec("counter", ("host",), "CPU time of the agent itself."),
    "zmon_agent_resident_bytes": Spec("gauge", ("host",), "Resident memory of the agent itself."),
    "zmon_build_info": Spec("gauge", ("version",), "The version that answers; always 1."),
    "zmon_job_info": Spec("gauge", ("job_id", "world_size"), "One per job, with the labels it was started with; always 1."),
    "zmon_job_throughput_samples_per_second": Spec("gauge", ("job_id",), "Samples of all ranks over the recent steps."),
    "zmon_job_time_seconds_total": Spec("counter", ("job_id", "cause"), "Where the job's wall-clock time went."),
    "zmon_finding": Spec("gauge", ("job_id", "detector", "cause", "severity", "rank", "host"), "1 while the finding is active."),
    "zmon_hub_coverage_ratio": Spec("gauge", ("job_id",), "Share of the job's ranks that agents report."),
    "zmon_hub_pass_seconds": Spec("gauge", (), "How long the hub's last pass took."),
    "zmon_hub_last_pass_timestamp_seconds": Spec("gauge", (), "When the hub last looked and saw, unix time."),
}  # fmt: skip
STEP_HISTOGRAM = "zmon_job_step_duration_seconds"


class Page:
    """A page of /metrics in the making."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def add(self, name: str, value: float | None, *labels: object, extra: dict[str, str] | None = None) -> None:
        """One series; label values in the order of the spec. A value of None is left out."""
        if value is None:
            return
        spec = SPECS[name]
        family = self._families.get(name)
        if family is None:
            make = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
            family = self._families[name] = make(name, spec.help)
        assert len(labels) == len(spec.labels), name
        suffixed = name if spec.kind == "gauge" else family.name + "_total"
        values = dict(zip(spec.labels, map(str, labels), strict=True))
        family.add_sample(suffixed, {**(extra or {}), **values}, value)

    def add_histogram(self, name: str, help_: str, label: tuple[str, str], counts: Sequence[int], total: float) -> None:
        """A histogram over STEP_SECONDS_BOUNDS; `counts` per bucket, not cumulative, the last one above all bounds."""
        family = self._families.get(name)
        if not isinstance(family, HistogramMetricFamily):
            family = self._families[name] = HistogramMetricFamily(name, help_, labels=[label[0]])
        running, buckets = 0, []
        for bound, count in zip((*STEP_SECONDS_BOUNDS, float("inf")), counts, strict=True):
            running += count
            buckets.append(("+Inf" if bound == float("inf") else f"{bound:g}", running))
        family.add_metric([label[1]], buckets, total)

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client asks for."""
        yield from self._families.values()

    def render(self) -> bytes:
        """The page in the text exposition format."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)


def agent_page(report: AgentReport, cpu_seconds: float, resident_bytes: int | None) -> bytes:
    """The agent's /metrics: its ranks, its host, itself."""
    page = Page()
    for state in report.ranks:
        _add_rank(page, state)
    _add_host(page, report.host, report.sample)
    _add_sources(page, report.host, report.sources)
    page.add("zmon_agent_cpu_seconds_total", cpu_seconds, report.host)
    page.add("zmon_agent_resident_bytes", resident_bytes, report.host)
    page.add("zmon_build_info", 1, report.version)
    return page.render()


def hub_page(
    jobs: Iterable[JobView],
    histograms: Mapping[str, tuple[Sequence[int], float]],
    findings: Iterable[Finding],
    pass_seconds: float,
    last_pass_time: float | None,
    version: str,
) -> bytes:
    """The hub's /metrics: its jobs, its findings, itself. Blind, it leaves its heartbeat where it was."""
    page = Page()
    for job in jobs:
        page.add("zmon_job_info", 1, job.job_id, job.world_size, extra=free_labels(job.labels))
        page.add("zmon_job_throughput_samples_per_second", job.samples_per_second, job.job_id)
        page.add("zmon_hub_coverage_ratio", job.ranks_seen / job.world_size, job.job_id)
        for cause, seconds in job.time.items():
            page.add("zmon_job_time_seconds_total", seconds, job.job_id, cause)
    for job_id, (counts, total) in histograms.items():
        page.add_histogram(STEP_HISTOGRAM, "Duration of the job's steps.", ("job_id", job_id), counts, total)
    for finding in findings:
        pairs: list[tuple[int | str, str]] = list(zip(finding.ranks, finding.hosts, strict=False))
        pairs = pairs or [("", "".join(finding.hosts[:1]))]
        for rank, host in pairs:
            page.add(
                "zmon_finding",
                1,
                finding.job_id,
                finding.detector,
                finding.cause,
                finding.severity,
                rank,
                host,
            )
    page.add("zmon_hub_pass_seconds", pass_seconds)
    page.add("zmon_hub_last_pass_timestamp_seconds", last_pass_time)
    page.add("zmon_build_info", 1, version)
    return page.render()


def free_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels a job was started with, as far as Prometheus takes their names and its own stay untouched."""
    return {k: v for k, v in labels.items() if _LABEL_NAME.fullmatch(k) and k not in ("job", "instance")}


def _add_rank(page: Page, state: RankState) -> None:
    me = (state.job_id, state.rank, state.host)
    page.add("zmon_rank_info", 1, *me, state.local_rank, state.attempt, state.device, state.backend or "")
    page.add("zmon_steps_total", state.steps, *me)
    page.add("zmon_samples_total", state.measures.samples, *me)
    page.add("zmon_lookups_total", state.measures.lookups, *me)
    page.add("zmon_step_seconds_total", state.step_seconds_total, *me)
    page.add("zmon_last_step_timestamp_seconds", state.last_step_time, *me)
    page.add("zmon_last_checkpoint_timestamp_seconds", state.last_checkpoint_time, *me)
    done = state.activity == "done"
    page.add("zmon_lease_overdue_seconds", None if done else state.overdue_seconds, *me)  # it has all time
    for activity in ACTIVITIES:
        if done or activity != "done":
            page.add("zmon_activity", float(activity == state.activity), *me, activity)
    for phase, seconds in state.measures.phases.items():
        page.add("zmon_phase_seconds_total", seconds, *me, phase)
    for op, totals in state.measures.ops.items():
        page.add("zmon_collectives_total", totals.count, *me, op)
        page.add("zmon_collective_seconds_total", totals.inflight_seconds, *me, op)
        page.add("zmon_collective_exposed_seconds_total", totals.exposed_seconds, *me, op)
        page.add("zmon_collective_bytes_total", totals.sent_bytes, *me, op, "sent")
        page.add("zmon_collective_bytes_total", totals.received_bytes, *me, op, "received")
    page.add("zmon_collective_network_bytes_total", state.measures.network_sent_bytes, *me, "sent")
    page.add("zmon_collective_network_bytes_total", state.measures.network_received_bytes, *me, "received")
    page.add("zmon_collective_inflight_seconds", state.in_flight.seconds if state.in_flight else 0.0, *me)
    page.add("zmon_step_nic_bytes_total", state.measures.nic_sent_bytes, *me, "sent")
    page.add("zmon_step_nic_bytes_total", state.measures.nic_received_bytes, *me, "received")
    if state.memory is not None:
        page.add("zmon_device_memory_bytes", state.memory.allocated_bytes, *me, "allocated")
        page.add("zmon_device_memory_bytes", state.memory.reserved_bytes, *me, "reserved")
        page.add("zmon_device_memory_bytes", state.memory.peak_bytes, *me, "peak")
    for key, value in state.report.items():
        page.add("zmon_report", value, *me, key)
    page.add("zmon_probe_overhead_seconds_total", state.overhead_seconds, *me)
    page.add("zmon_probe_dropped_records_total", state.dropped_records, *me)
    page.add("zmon_process_resident_bytes", state.resident_bytes, *me)


def _add_host(page: Page, host: str, sample: HostSample) -> None:
    for nic in sample.nics or ():
        where = (host, nic.device, nic.transport)
        page.add("zmon_nic_receive_bytes_total", nic.received_bytes, *where)
        page.add("zmon_nic_transmit_bytes_total", nic.transmitted_bytes, *where)
        page.add("zmon_nic_up", None if nic.up is None else float(nic.up), *where)
        page.add("zmon_nic_speed_bytes_per_second", nic.speed_bytes_per_second, *where)
        for counter, count in nic.errors.items():
            page.add("zmon_nic_errors_total", count, host, nic.device, counter)
    for gpu in sample.gpus or ():
        card = (host, gpu.index, gpu.uuid)
        page.add("zmon_gpu_memory_used_bytes", gpu.memory_used_bytes, *card)
        page.add("zmon_gpu_memory_total_bytes", gpu.memory_total_bytes, *card)
        page.add("zmon_gpu_utilization_ratio", gpu.utilization_ratio, *card)
        page.add("zmon_gpu_power_watts", gpu.power_watts, *card)
        page.add("zmon_gpu_temperature_celsius", gpu.temperature_celsius, *card)
    if sample.load is not None:
        for mode, seconds in sample.load.cpu_seconds.items():
            page.add("zmon_host_cpu_seconds_total", seconds, host, mode)
        page.add("zmon_host_memory_available_bytes", sample.load.memory_available_bytes, host)
        page.add("zmon_host_memory_total_bytes", sample.load.memory_total_bytes, host)
        page.add("zmon_host_swap_used_bytes", sample.load.swap_used_bytes, host)


def _add_sources(page: Page, host: str, sources: Iterable[SourceStatus]) -> None:
    for source in sources:
        if source.absent:
            continue  # nothing to read here: not a failure, and not a 0 to page on
        page.add("zmon_source_up", float(source.up), host, source.name)
        page.add("zmon_source_duration_seconds", source.duration_seconds, host, source.name)
        page.add("zmon_source_last_success_timestamp_seconds", source.last_success_time, host, source.name)
        page.add("zmon_source_errors_total", source.num_errors, host, source.name)
