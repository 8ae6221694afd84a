"""What /metrics says of a rank: 64 series at most, six ops included."""

from __future__ import annotations

from zmon.metrics.page import Page
from zmon.schema.names import ACTIVITIES
from zmon.schema.rank import RankState


def add_rank(page: Page, state: RankState) -> None:
    """All series of one rank."""
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
    for activity in dict.fromkeys((*ACTIVITIES, state.activity)):  # that of a newer agent may be none of ours
        over = activity == "init" != state.activity and state.steps > 0  # it never comes again
        if not over and (done or activity != "done"):
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
