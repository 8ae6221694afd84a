"""Adds the metrics of a rank to a /metrics page: at most 64 series, including six ops."""

from __future__ import annotations

from zmon.metrics.names import SPECS
from zmon.metrics.page import Page
from zmon.schema.measures import MEASURES, Measure, measure_of
from zmon.schema.rank import RankState

_USUAL_ACTIVITIES = ("init", "train", "eval", "checkpoint", "done")
_FIELDS = tuple(measure for measure in MEASURES if measure.metric and measure.field)


_LEAST_NEEDED = (  # what no alert and no recorded series reads comes first
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
    "zmon_collective_exposed_seconds_total",
    "zmon_phase_seconds_total",
)


def least_needed() -> tuple[str, ...]:
    """Return the metrics of ranks in the order in which a page that is too long loses them.

    It loses a metric of all ranks at once, so that what it shows is complete: a sum over some ranks would be wrong.
    The backstop `ZmonLeaseOverdue` compares all ranks of a job, so their leases stay.
    """
    of_ranks = (name for name, spec in SPECS.items() if "rank" in spec.labels and name != "zmon_lease_overdue_seconds")
    return tuple(dict.fromkeys((*_LEAST_NEEDED, *sorted(of_ranks))))


def add_rank(page: Page, state: RankState) -> None:
    """Add all series of one rank."""
    labels = (state.job_id, state.rank, state.host)
    about = (state.local_rank, state.attempt, state.device, state.backend or "", state.edge)
    page.add("zmon_rank_info", 1, *labels, *about)
    for measure in _FIELDS:
        page.add(measure.metric, getattr(state, measure.field), *labels, *_label(measure))
    for column, total in (state.totals or {}).items():
        known = measure_of(column)
        if known is not None and known[0].metric:
            measure, word = known
            page.add(measure.metric, total, *labels, *([word] if measure.per else []), *_label(measure))
    done = state.activity == "done"
    page.add("zmon_lease_overdue_seconds", None if done else state.overdue_seconds, *labels)  # no lease applies
    # Rare activities, and those that only a newer agent knows, have a series only while they last.
    for activity in dict.fromkeys((*_USUAL_ACTIVITIES, state.activity)):
        over = activity == "init" != state.activity and state.steps > 0  # the first init never comes again
        if not over and (done or activity != "done"):
            page.add("zmon_activity", float(activity == state.activity), *labels, activity)
    page.add("zmon_collective_inflight_seconds", state.in_flight.seconds if state.in_flight else 0.0, *labels)
    for key, value in state.report.items():
        page.add("zmon_report", value, *labels, key)
    page.add("zmon_process_resident_bytes", state.resident_bytes, *labels)


def _label(measure: Measure) -> tuple[str, ...]:
    return measure.label[1:] if measure.label else ()
