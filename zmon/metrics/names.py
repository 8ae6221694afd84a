"""Every Prometheus metric zmon exports, by name, with its labels and what it tells.

Names and labels are the contract; units are base units (Prometheus naming practices).
"""

from __future__ import annotations

from collections.abc import Iterable

from zmon.metrics.spec import Spec, Subject
from zmon.schema.host import (
    CgroupSample,
    ClockSample,
    DiskSample,
    GpuSample,
    HostLoad,
    HostSample,
    KernelLog,
    MountSample,
    NicSample,
    TcpSample,
)

STEP_SECONDS_BOUNDS = tuple(0.001 * 2**k for k in range(17))

RANK = ("job_id", "rank", "host")
HOST = ("host",)


def _links(sample: HostSample) -> Iterable[NicSample]:
    return (*(sample.nics or ()), *(sample.rdma or ()))


# What the hardware metrics are about: the labels, where it stands in a sample of the host, and the labels' values.
LINK = Subject[NicSample](("host", "device", "transport"), _links, lambda nic: (nic.device, nic.transport))
LINK_COUNTERS = Subject[NicSample](("host", "device"), _links, lambda nic: (nic.device,))
GPU = Subject[GpuSample](("host", "gpu", "uuid"), lambda sample: sample.gpus or (), lambda gpu: (gpu.gpu, gpu.uuid))
CARD = Subject[GpuSample](
    (*GPU.labels, "name", "pci", "nics"),
    GPU.things,
    lambda gpu: (gpu.gpu, gpu.uuid, gpu.name or "", gpu.pci or "", ",".join(gpu.nics)),
)
LOAD = Subject[HostLoad](HOST, lambda sample: (sample.load,) if sample.load else ())
DISK = Subject[DiskSample](
    ("host", "device"), lambda sample: sample.storage.disks if sample.storage else (), lambda disk: (disk.device,)
)
MOUNT = Subject[MountSample](
    ("host", "mount", "kind"),
    lambda sample: sample.storage.mounts if sample.storage else (),
    lambda mount: (mount.mount, mount.kind),
)
CLOCK = Subject[ClockSample](HOST, lambda sample: (sample.clock,) if sample.clock else ())
KERNEL = Subject[KernelLog](HOST, lambda sample: (sample.kernel,) if sample.kernel else ())
CGROUP = Subject[CgroupSample](("host", "cgroup"), lambda sample: sample.cgroups or (), lambda group: (group.path,))
TCP = Subject[TcpSample](HOST, lambda sample: (sample.tcp,) if sample.tcp else ())

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
    "zmon_nic_receive_bytes_total": LINK.counter("Bytes received.", lambda nic: nic.received_bytes),
    "zmon_nic_transmit_bytes_total": LINK.counter("Bytes sent.", lambda nic: nic.transmitted_bytes),
    "zmon_nic_up": LINK.gauge("1 when the link is up.", lambda nic: nic.up),
    "zmon_nic_speed_bytes_per_second": LINK.gauge("Nominal speed of the link.", lambda nic: nic.speed_bytes_per_second),
    "zmon_nic_errors_total": LINK_COUNTERS.counter("Errors, drops and congestion by kernel counter.", lambda nic: nic.errors, by="counter"),
    "zmon_gpu_info": CARD.gauge("One per card, with the network devices nearest to it; always 1.", lambda gpu: 1),
    "zmon_gpu_lost": GPU.gauge("1 when the card fell off the bus.", lambda gpu: gpu.lost),
    "zmon_gpu_memory_used_bytes": GPU.gauge("Memory in use on the card.", lambda gpu: gpu.memory_used_bytes),
    "zmon_gpu_memory_total_bytes": GPU.gauge("Memory of the card.", lambda gpu: gpu.memory_total_bytes),
    "zmon_gpu_utilization_ratio": GPU.gauge("Share of time a kernel was running.", lambda gpu: gpu.utilization_ratio),
    "zmon_gpu_power_watts": GPU.gauge("Power drawn.", lambda gpu: gpu.power_watts),
    "zmon_gpu_power_limit_watts": GPU.gauge("Power it may draw.", lambda gpu: gpu.power_limit_watts),
    "zmon_gpu_temperature_celsius": GPU.gauge("Temperature of the chip.", lambda gpu: gpu.temperature_celsius),
    "zmon_gpu_memory_temperature_celsius": GPU.gauge("Temperature of the memory.", lambda gpu: gpu.memory_temperature_celsius),
    "zmon_gpu_clock_hertz": GPU.gauge("Clock now.", lambda gpu: gpu.clocks_hertz, by="domain"),
    "zmon_gpu_max_clock_hertz": GPU.gauge("Clock the card can reach.", lambda gpu: gpu.max_clocks_hertz, by="domain"),
    "zmon_gpu_throttled": GPU.gauge("1 while the clock is held down for that reason.", lambda gpu: gpu.throttled, by="reason"),
    "zmon_gpu_ecc_errors_total": GPU.counter("Memory errors, repaired rows and pages included.", lambda gpu: gpu.ecc_errors, by="kind"),
    "zmon_gpu_repair_pending": GPU.gauge("1 when memory waits for a reset to be repaired.", lambda gpu: gpu.repair_pending),
    "zmon_gpu_xid_errors_total": GPU.counter("Errors the driver raised, since the agent started.", lambda gpu: gpu.xid_errors, by="xid"),
    "zmon_gpu_pcie_bytes_total": GPU.counter("Bytes over PCIe.", lambda gpu: {"received": gpu.pcie_received_bytes, "sent": gpu.pcie_sent_bytes}, by="direction"),
    "zmon_gpu_nvlink_bytes_total": GPU.counter("Bytes over all NVLinks.", lambda gpu: {"received": gpu.nvlink_received_bytes, "sent": gpu.nvlink_sent_bytes}, by="direction"),
    "zmon_gpu_nvlink_errors_total": GPU.counter("Errors on all NVLinks.", lambda gpu: gpu.nvlink_errors),
    "zmon_host_cpu_seconds_total": LOAD.counter("CPU time of all cores.", lambda load: load.cpu_seconds, by="mode"),
    "zmon_host_runnable_processes": LOAD.gauge("Processes that run or wait for a core.", lambda load: load.runnable),
    "zmon_host_blocked_processes": LOAD.gauge("Processes that wait for a disk or a file system.", lambda load: load.blocked),
    "zmon_host_memory_available_bytes": LOAD.gauge("Memory that can be had without swapping.", lambda load: load.memory_available_bytes),
    "zmon_host_memory_total_bytes": LOAD.gauge("Memory of the host.", lambda load: load.memory_total_bytes),
    "zmon_host_swap_used_bytes": LOAD.gauge("Swap in use.", lambda load: load.swap_used_bytes),
    "zmon_host_major_page_faults_total": LOAD.counter("Page faults that had to read a disk.", lambda load: load.major_faults),
    "zmon_host_oom_kills_total": LOAD.counter("Processes the kernel killed for want of memory.", lambda load: load.oom_kills),
    "zmon_host_pressure_seconds_total": LOAD.counter("Time in which some process waited for it (PSI some).", lambda load: load.pressure_seconds, by="resource"),
    "zmon_host_full_pressure_seconds_total": LOAD.counter("Time in which all processes waited for it (PSI full).", lambda load: load.full_pressure_seconds, by="resource"),
    "zmon_host_disk_read_bytes_total": DISK.counter("Bytes read.", lambda disk: disk.read_bytes),
    "zmon_host_disk_written_bytes_total": DISK.counter("Bytes written.", lambda disk: disk.written_bytes),
    "zmon_host_disk_busy_seconds_total": DISK.counter("Time with something to do.", lambda disk: disk.busy_seconds),
    "zmon_host_disk_io_in_progress": DISK.gauge("Reads and writes not done yet.", lambda disk: disk.in_progress),
    "zmon_host_mount_operations_total": MOUNT.counter("Operations on a network file system.", lambda mount: mount.operations),
    "zmon_host_mount_wait_seconds_total": MOUNT.counter("Time its operations took, all together.", lambda mount: mount.wait_seconds),
    "zmon_host_mount_timeouts_total": MOUNT.counter("Operations the server did not answer in time.", lambda mount: mount.timeouts),
    "zmon_host_clock_offset_seconds": CLOCK.gauge("Off the time servers' time by so much.", lambda clock: clock.offset_seconds),
    "zmon_host_clock_synchronized": CLOCK.gauge("1 when the clock follows a time server.", lambda clock: clock.synchronized),
    "zmon_host_kernel_events_total": KERNEL.counter("Lines of the kernel's log about GPUs, memory and links, since the agent started.", lambda kernel: kernel.counts, by="kind"),
    "zmon_cgroup_memory_used_bytes": CGROUP.gauge("Memory of a control group that ranks live in.", lambda group: group.memory_used_bytes),
    "zmon_cgroup_memory_limit_bytes": CGROUP.gauge("Memory it may have.", lambda group: group.memory_limit_bytes),
    "zmon_cgroup_cpu_limit_cores": CGROUP.gauge("Cores it may have.", lambda group: group.cpu_limit_cores),
    "zmon_cgroup_throttled_seconds_total": CGROUP.counter("Time its processes were held back, their share used up.", lambda group: group.throttled_seconds),
    "zmon_cgroup_oom_kills_total": CGROUP.counter("Its processes killed for want of memory.", lambda group: group.oom_kills),
    "zmon_tcp_retransmitted_segments_total": TCP.counter("TCP segments the host sent again.", lambda tcp: tcp.retransmitted_segments),
    "zmon_tcp_send_queue_bytes": Spec("gauge", ("host", "job_id", "rank"), "What the rank's connections have sent and nobody acknowledged yet."),
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
