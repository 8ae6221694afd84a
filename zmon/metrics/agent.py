"""The /metrics page of the agent: its ranks, its host, and the agent itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any

from zmon.metrics.names import SPECS, Subject
from zmon.metrics.page import Page
from zmon.schema.api.agent import UNREAD_KINDS, AgentReport
from zmon.schema.host import HostSample, SourceStatus
from zmon.schema.measures import MEASURES, Measure, measure_of
from zmon.schema.rank import RankState

_USUAL_ACTIVITIES = ("init", "train", "eval", "checkpoint", "done")
_FIELDS = tuple(measure for measure in MEASURES if measure.metric and measure.field)
# The metrics of ranks that a page loses first if it is too long. It begins with those that no alert or rule reads.
_LEAST_NEEDED = (
    "zmon_report",
    "zmon_collective_bytes_total",
    "zmon_collectives_total",
    "zmon_device_memory_bytes",
    "zmon_probe_overhead_seconds_total",
    "zmon_probe_dropped_records_total",
    "zmon_process_resident_bytes",
    "zmon_tcp_send_queue_bytes",
    "zmon_collective_seconds_total",
    "zmon_lookups_total",
    "zmon_tokens_total",
    "zmon_offload_bytes_total",
    "zmon_collective_exposed_seconds_total",
    "zmon_phase_seconds_total",
)


def agent_page(
    report: AgentReport,
    cpu_seconds: float,
    resident_bytes: int | None,
    reload_success: float | None = None,
    jobs_left_out: int = 0,
    max_series: int | None = None,
    acts: Mapping[tuple[str, str], int] | None = None,
    act_stops: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """Return the page for the agent's latest report.

    `reload_success`: 1 if `--web.config.file` is used as it is now, else 0; None without it. `jobs_left_out`: the
    number of jobs whose ranks are not in the report, since there are too many. `max_series`: the most series of the
    page, since Prometheus drops a whole scrape that exceeds its `sample_limit`; None: no limit. `acts`: the number of
    answers by act and result; None if the agent does no acts. `act_stops`: `person` or `breaker`, by name of the stop.
    """
    page = Page()
    for state in report.ranks:
        add_rank(page, state)
    page.declare("zmon_lease_overdue_seconds")
    page.declare("zmon_held_idle_seconds")
    _add_host(page, report.host, report.sample)
    shown_ranks = {(state.job_id, state.rank) for state in report.ranks}
    _add_send_queues(page, report, shown_ranks)
    _add_storage_reads(page, report, shown_ranks)
    _add_sources(page, report.host, report.sources)
    num_unread = Counter(dict.fromkeys(UNREAD_KINDS, 0))
    num_unread.update(rank.kind for rank in report.unread)
    page.add_each("zmon_boxes_unread", num_unread, report.host)
    page.add("zmon_agent_cpu_seconds_total", cpu_seconds, report.host)
    page.add("zmon_agent_resident_bytes", resident_bytes, report.host)
    page.declare("zmon_agent_acts_total")
    page.declare("zmon_agent_acts_stopped")
    page.add_each("zmon_agent_acts_total", acts or {}, report.host)
    page.add_each("zmon_agent_acts_stopped", dict.fromkeys(act_stops.items(), 1), report.host)
    page.add("zmon_jobs_left_out", jobs_left_out)
    page.add("zmon_build_info", 1, report.version)
    page.declare("zmon_config_reload_success")  # without it, doctor would report that the alert on it cannot fire
    page.add("zmon_config_reload_success", reload_success)
    left_out = 0 if max_series is None else page.leave_out(least_needed(), max_series - 1)  # one more follows
    page.add("zmon_series_left_out", left_out)
    return page.render()


def least_needed() -> tuple[str, ...]:
    """Return the metrics of ranks in the order in which a page that is too long loses them.

    It loses a metric of all ranks at once, so that what it shows is complete: a sum over some ranks would be wrong.
    The backstop `ZmonLeaseOverdue` compares all ranks of a job, so their leases stay.
    """
    rank_metrics = (name for name, spec in SPECS.items() if "rank" in spec.labels)
    order = dict.fromkeys((*_LEAST_NEEDED, *sorted(rank_metrics)))
    return tuple(name for name in order if name != "zmon_lease_overdue_seconds")


def add_rank(page: Page, state: RankState) -> None:
    """Add the series of one rank."""
    labels = (state.job_id, state.rank, state.host)
    info = (state.local_rank, state.attempt, state.device, state.backend or "", state.edge)
    page.add("zmon_rank_info", 1, *labels, *info)
    for measure in _FIELDS:
        page.add(measure.metric, getattr(state, measure.field), *labels, *_label(measure))
    for column, total in (state.totals or {}).items():
        if (known := measure_of(column)) is not None:
            measure, word = known
            if measure.metric:
                page.add(measure.metric, total, *labels, *([word] if measure.per else []), *_label(measure))
    is_done = state.activity == "done"  # then no lease applies
    page.add("zmon_lease_overdue_seconds", None if is_done else state.overdue_seconds, *labels)
    # Rare activities, and those that only a newer agent knows, have a series only while they last.
    for activity in dict.fromkeys((*_USUAL_ACTIVITIES, state.activity)):
        is_past_init = activity == "init" and state.activity != "init" and state.steps > 0  # a rank is in it only once
        if not is_past_init and (is_done or activity != "done"):
            page.add("zmon_activity", float(activity == state.activity), *labels, activity)
    page.add("zmon_collective_inflight_seconds", state.in_flight.seconds if state.in_flight else 0.0, *labels)
    page.add_each("zmon_report", state.report, *labels)
    page.add("zmon_process_resident_bytes", state.resident_bytes, *labels)


def _label(measure: Measure) -> tuple[str, ...]:
    """Return the value of the label that all series of a measure have, if there is one."""
    return measure.label[1:] if measure.label else ()


def _add_host(page: Page, host: str, sample: HostSample) -> None:
    """Add every hardware metric of one host, from the table of names; values that were not read have no series."""
    rows: dict[Subject[Any], list[tuple[Any, tuple[object, ...]]]] = {}  # items with their label values
    for name, spec in SPECS.items():
        subject = spec.subject
        if subject is None:
            continue
        if subject not in rows:
            rows[subject] = [(item, (host, *subject.label_values(item))) for item in subject.items(sample)]
        for item, labels in rows[subject]:
            add = page.add_each if spec.by else page.add
            add(name, spec.read(item), *labels)


def _add_send_queues(page: Page, report: AgentReport, shown_ranks: Set[tuple[str, int]]) -> None:
    """Add the send queue of each rank that has TCP connections; a rank without any has no series, not a 0."""
    queued: Counter[tuple[str, int]] = Counter()
    for peer in report.sample.tcp.peers if report.sample.tcp else ():
        queued[peer.job_id, peer.rank] += peer.send_queue_bytes
    for (job_id, rank), num_bytes in queued.items():
        if (job_id, rank) in shown_ranks:
            page.add("zmon_tcp_send_queue_bytes", num_bytes, report.host, job_id, rank)


def _add_storage_reads(page: Page, report: AgentReport, shown_ranks: Set[tuple[str, int]]) -> None:
    """Add the storage reads of each job on this host: one series per job, because a rank has no series left."""
    by_job: defaultdict[str, list[int | None]] = defaultdict(list)
    for process in report.sample.processes or ():
        if (process.job_id, process.rank) in shown_ranks:
            by_job[process.job_id].append(process.storage_read_bytes)
    for job_id, reads in by_job.items():
        known = [read for read in reads if read is not None]
        page.add("zmon_storage_read_bytes_total", sum(known) if len(known) == len(reads) else None, job_id, report.host)


def _add_sources(page: Page, host: str, sources: Iterable[SourceStatus]) -> None:
    for source in sources:
        if source.absent:
            continue  # the machine has nothing to read, which is no failure; a 0 would cause an alert
        page.add("zmon_source_up", float(source.up), host, source.name)
        page.add("zmon_source_duration_seconds", source.duration_seconds, host, source.name)
        page.add("zmon_source_last_success_timestamp_seconds", source.last_success_time, host, source.name)
        page.add("zmon_source_errors_total", source.num_errors, host, source.name)
        page.add("zmon_source_dropped_total", source.num_dropped, host, source.name)
