"""Every Prometheus metric zmon exports, by name, with its labels and what it tells.

Names and labels are the contract; units are base units (Prometheus naming practices).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

STEP_SECONDS_BOUNDS = tuple(0.001 * 2**k for k in range(17))

RANK = ("job_id", "rank", "host")
HOST = ("host",)
NIC = ("host", "device", "transport")
GPU = ("host", "gpu", "uuid")
MOUNT = ("host", "mount", "kind")
CGROUP = ("host", "cgroup")


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
    "zmon_nic_receive_bytes_total": Spec("counter", NIC, "Bytes received."),
    "zmon_nic_transmit_bytes_total": Spec("counter", NIC, "Bytes sent."),
    "zmon_nic_up": Spec("gauge", NIC, "1 when the link is up."),
    "zmon_nic_speed_bytes_per_second": Spec("gauge", NIC, "Nominal speed of the link."),
    "zmon_nic_errors_total": Spec("counter", ("host", "device", "counter"), "Errors, drops and congestion by kernel counter."),
    "zmon_tcp_retransmitted_segments_total": Spec("counter", HOST, "TCP segments the host sent again."),
    "zmon_tcp_send_queue_bytes": Spec("gauge", ("host", "job_id", "rank"), "What the rank's connections have sent and nobody acknowledged yet."),
    "zmon_gpu_info": Spec("gauge", (*GPU, "name", "pci", "nics"), "One per card, with the network devices nearest to it; always 1."),
    "zmon_gpu_lost": Spec("gauge", GPU, "1 when the card fell off the bus."),
    "zmon_gpu_memory_used_bytes": Spec("gauge", GPU, "Memory in use on the card."),
    "zmon_gpu_memory_total_bytes": Spec("gauge", GPU, "Memory of the card."),
    "zmon_gpu_utilization_ratio": Spec("gauge", GPU, "Share of time a kernel was running."),
    "zmon_gpu_power_watts": Spec("gauge", GPU, "Power drawn."),
    "zmon_gpu_power_limit_watts": Spec("gauge", GPU, "Power it may draw."),
    "zmon_gpu_temperature_celsius": Spec("gauge", GPU, "Temperature of the chip."),
    "zmon_gpu_memory_temperature_celsius": Spec("gauge", GPU, "Temperature of the memory."),
    "zmon_gpu_clock_hertz": Spec("gauge", (*GPU, "domain"), "Clock now."),
    "zmon_gpu_max_clock_hertz": Spec("gauge", (*GPU, "domain"), "Clock the card can reach."),
    "zmon_gpu_throttled": Spec("gauge", (*GPU, "reason"), "1 while the clock is held down for that reason."),
    "zmon_gpu_ecc_errors_total": Spec("counter", (*GPU, "kind"), "Memory errors, repaired rows and pages included."),
    "zmon_gpu_repair_pending": Spec("gauge", GPU, "1 when memory waits for a reset to be repaired."),
    "zmon_gpu_xid_errors_total": Spec("counter", (*GPU, "xid"), "Errors the driver raised, since the agent started."),
    "zmon_gpu_pcie_bytes_total": Spec("counter", (*GPU, "direction"), "Bytes over PCIe."),
    "zmon_gpu_nvlink_bytes_total": Spec("counter", (*GPU, "direction"), "Bytes over all NVLinks."),
    "zmon_gpu_nvlink_errors_total": Spec("counter", GPU, "Errors on all NVLinks."),
    "zmon_host_cpu_seconds_total": Spec("counter", ("host", "mode"), "CPU time of all cores."),
    "zmon_host_runnable_processes": Spec("gauge", HOST, "Processes that run or wait for a core."),
    "zmon_host_blocked_processes": Spec("gauge", HOST, "Processes that wait for a disk or a file system."),
    "zmon_host_memory_available_bytes": Spec("gauge", HOST, "Memory that can be had without swapping."),
    "zmon_host_memory_total_bytes": Spec("gauge", HOST, "Memory of the host."),
    "zmon_host_swap_used_bytes": Spec("gauge", HOST, "Swap in use."),
    "zmon_host_major_page_faults_total": Spec("counter", HOST, "Page faults that had to read a disk."),
    "zmon_host_pressure_seconds_total": Spec("counter", ("host", "resource"), "Time in which some process waited for it (PSI some)."),
    "zmon_host_full_pressure_seconds_total": Spec("counter", ("host", "resource"), "Time in which all processes waited for it (PSI full)."),
    "zmon_host_oom_kills_total": Spec("counter", HOST, "Processes the kernel killed for want of memory."),
    "zmon_host_clock_offset_seconds": Spec("gauge", HOST, "Off the time servers' time by so much."),
    "zmon_host_clock_synchronized": Spec("gauge", HOST, "1 when the clock follows a time server."),
    "zmon_host_disk_read_bytes_total": Spec("counter", ("host", "device"), "Bytes read."),
    "zmon_host_disk_written_bytes_total": Spec("counter", ("host", "device"), "Bytes written."),
    "zmon_host_disk_busy_seconds_total": Spec("counter", ("host", "device"), "Time with something to do."),
    "zmon_host_disk_io_in_progress": Spec("gauge", ("host", "device"), "Reads and writes not done yet."),
    "zmon_host_mount_operations_total": Spec("counter", MOUNT, "Operations on a network file system."),
    "zmon_host_mount_wait_seconds_total": Spec("counter", MOUNT, "Time its operations took, all together."),
    "zmon_host_mount_timeouts_total": Spec("counter", MOUNT, "Operations the server did not answer in time."),
    "zmon_host_kernel_events_total": Spec("counter", ("host", "kind"), "Lines of the kernel's log about GPUs, memory and links, since the agent started."),
    "zmon_cgroup_memory_used_bytes": Spec("gauge", CGROUP, "Memory of a control group that ranks live in."),
    "zmon_cgroup_memory_limit_bytes": Spec("gauge", CGROUP, "Memory it may have."),
    "zmon_cgroup_cpu_limit_cores": Spec("gauge", CGROUP, "Cores it may have."),
    "zmon_cgroup_throttled_seconds_total": Spec("counter", CGROUP, "Time its processes were held back, their share used up."),
    "zmon_cgroup_oom_kills_total": Spec("counter", CGROUP, "Its processes killed for want of memory."),
    "zmon_source_up": Spec("gauge", ("host", "source"), "1 when the source last answered."),
    "zmon_source_duration_seconds": Spec("gauge", ("host", "source"), "How long its last reading took."),
    "zmon_source_last_success_timestamp_seconds": Spec("gauge", ("host", "source"), "When it last answered, unix time."),
    "zmon_source_errors_total": Spec("counter", ("host", "source"), "Readings that failed."),
    "zmon_source_dropped_total": Spec("counter", ("host", "source"), "Things its readings left out."),
    "zmon_agent_cpu_seconds_total": Spec("counter", HOST, "CPU time of the agent itself."),
    "zmon_agent_resident_bytes": Spec("gauge", HOST, "Resident memory of the agent itself."),
    "zmon_build_info": Spec("gauge", ("version",), "The version that answers; always 1."),
    "zmon_job_info": Spec("gauge", ("job_id", "world_size"), "One per job, with the labels it was started with; always 1."),
    "zmon_job_throughput_samples_per_second": Spec("gauge", ("job_id",), "Samples of all ranks over the recent steps."),
    "zmon_job_time_seconds_total": Spec("counter", ("job_id", "cause"), "Where the job's wall-clock time went, over all its starts."),
    "zmon_job_gpu_seconds_total": Spec("counter", ("job_id", "cause"), "Where the time of all its ranks together went."),
    "zmon_job_goodput_ratio": Spec("gauge", ("job_id",), "Time in steps that were kept, of wall-clock, over all its starts."),
    "zmon_job_efficiency_ratio": Spec("gauge", ("job_id", "scaling"), "Samples per second and rank, of those of the baseline's fewest ranks."),
    "zmon_job_baseline_efficiency_ratio": Spec("gauge", ("job_id", "scaling"), "What was recorded for it at the job's own size."),
    "zmon_job_baseline_info": Spec("gauge", ("job_id", "scaling", "baseline", "ranks", "samples"), "What it is held against: ranks and samples a step; always 1."),
    "zmon_job_expected_step_seconds": Spec("gauge", ("job_id", "by", "cause"), "What a step should take, recorded or predicted at this size."),
    "zmon_finding": Spec("gauge", ("job_id", "detector", "cause", "severity", "rank", "host"), "1 while the finding is active."),
    "zmon_hub_coverage_ratio": Spec("gauge", ("job_id",), "Share of the job's ranks that agents report."),
    "zmon_hub_pass_seconds": Spec("gauge", (), "How long the hub's last pass took."),
    "zmon_hub_last_pass_timestamp_seconds": Spec("gauge", (), "When the hub last looked and saw, unix time."),
}  # fmt: skip
STEP_HISTOGRAM = "zmon_job_step_duration_seconds"
