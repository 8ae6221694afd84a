"""Adds the metrics of a rank to a /metrics page: at most 64 series, including six ops."""

from __future__ import annotations

from zmon.metrics.page import Page
from zmon.schema.rank import RankState
from zmon.schema.step import Measures

_USUAL_ACTIVITIES = ("init", "train", "eval", "checkpoint", "done")


def add_rank(page: Page, state: RankState) -> None:
    """Add all series of one rank."""
    labels = (state.job_id, state.rank, state.host)
    about = (state.local_rank, state.attempt, state.device, state.backend or "", state.edge)
    page.add("zmon_rank_info", 1, *labels, *about)
    page.add("zmon_steps_total", state.steps, *labels)
    measures = state.measures or Measures()
    page.add("zmon_samples_total", measures.samples, *labels)
    page.add("zmon_lookups_total", measures.lookups, *labels)
    page.add("zmon_step_seconds_total", state.step_seconds_total, *labels)
    page.add("zmon_last_step_timestamp_seconds", state.last_step_time, *labels)
    page.add("zmon_last_checkpoint_timestamp_seconds", state.last_checkpoint_time, *labels)
    done = state.activity == "done"
    page.add("zmon_lease_overdue_seconds", None if done else state.overdue_seconds, *labels)  # no lease applies
    # Rare activities, and those that only a newer agent knows, have a series only while they last.
    for activity in dict.fromkeys((*_USUAL_ACTIVITIES, state.activity)):
        over = activity == "init" != state.activity and state.steps > 0  # the first init never comes again
        if not over and (done or activity != "done"):
            page.add("zmon_activity", float(activity == state.activity), *labels, activity)
    for phase, seconds in measures.phases.items():
        page.add("zmon_phase_seconds_total", seconds, *labels, phase)
    for op, totals in measures.ops.items():
        page.add("zmon_collectives_total", totals.count, *labels, op)
        page.add("zmon_collective_seconds_total", totals.inflight_seconds, *labels, op)
        page.add("zmon_collective_exposed_seconds_total", totals.exposed_seconds, *labels, op)
        page.add("zmon_collective_bytes_total", totals.sent_bytes, *labels, op, "sent")
        page.add("zmon_collective_bytes_total", totals.received_bytes, *labels, op, "received")
    page.add("zmon_collective_network_bytes_total", measures.network_sent_bytes, *labels, "sent")
    page.add("zmon_collective_network_bytes_total", measures.network_received_bytes, *labels, "received")
    page.add("zmon_collective_inflight_seconds", state.in_flight.seconds if state.in_flight else 0.0, *labels)
    page.add("zmon_step_nic_bytes_total", measures.nic_sent_bytes, *labels, "sent")
    page.add("zmon_step_nic_bytes_total", measures.nic_received_bytes, *labels, "received")
    if state.memory is not None:
        page.add("zmon_device_memory_bytes", state.memory.allocated_bytes, *labels, "allocated")
        page.add("zmon_device_memory_bytes", state.memory.reserved_bytes, *labels, "reserved")
        page.add("zmon_device_memory_bytes", state.memory.peak_bytes, *labels, "peak")
    for key, value in state.report.items():
        page.add("zmon_report", value, *labels, key)
    page.add("zmon_probe_overhead_seconds_total", state.overhead_seconds, *labels)
    page.add("zmon_probe_dropped_records_total", state.dropped_records, *labels)
    page.add("zmon_process_resident_bytes", state.resident_bytes, *labels)
