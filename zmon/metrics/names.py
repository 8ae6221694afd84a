"""All Prometheus metrics that zmon exports: name, type, labels and help text. `hub.py` has the histogram of steps.

The metrics of amounts that a rank counts in its steps come from the table of measures (zmon/schema/measures.py). Names
and labels never change; units are base units (Prometheus naming practices).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from zmon.schema import host
from zmon.schema.measures import MEASURES

Value = float | None  # None: unknown, and no series
Kind = Literal["gauge", "counter"]
_Item = TypeVar("_Item")


class Spec(NamedTuple):
    """One metric. Metrics without a subject get their values in `agent.py` or `hub.py`."""

    kind: Kind
    labels: tuple[str, ...]
    help: str
    subject: Subject[Any] | None = None
    read: Callable[[Any], Any] = lambda item: None  # the value of an item; with `by` its values, by that label
    by: str = ""  # the last label, if an item has several values; empty: it has one


@dataclass(frozen=True, eq=False)
class Subject(Generic[_Item]):
    """The items that a hardware metric describes, such as the GPUs of a host, and their labels."""

    labels: tuple[str, ...]  # the host is the first label
    items: Callable[[host.HostSample], Iterable[_Item]]
    label_values: Callable[[_Item], tuple[object, ...]] = lambda item: ()  # values of all labels except the host

    def gauge(self, help_: str, read: Callable[[_Item], Value | Mapping[Any, Value]], by: str = "") -> Spec:
        """Return a metric whose value goes up and down. With `by`, each item has one value per value of that label."""
        return self._spec("gauge", help_, read, by)

    def counter(self, help_: str, read: Callable[[_Item], Value | Mapping[Any, Value]], by: str = "") -> Spec:
        """Return a metric whose value only increases. With `by`, each item has one value per value of that label."""
        return self._spec("counter", help_, read, by)

    def _spec(self, kind: Kind, help_: str, read: Callable[[_Item], Value | Mapping[Any, Value]], by: str) -> Spec:
        return Spec(kind, (*self.labels, by) if by else self.labels, help_, self, read, by)


_V = TypeVar("_V")
LABEL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")  # of a label from outside zmon; Prometheus uses names with __ itself
STEP_SECONDS_BOUNDS = tuple(0.001 * 2**k for k in range(17))  # of the histogram, from 1 ms to 65.5 s

RANK = ("job_id", "rank", "host")
HOST = ("host",)

# Error counters of a link on the page. A port of an RDMA card has thirty; detectors and capsules compare all of them in
# the agent's snapshot. With ten, a link has at most 14 series: these, bytes both ways, its state and its speed.
MAX_COUNTERS = 10

# The counters that come first, by transport: lost and repeated packets, then congestion. Others follow by name.
_FIRST = {
    "infiniband": "link_downed link_error_recovery symbol_error port_rcv_errors port_xmit_discards port_xmit_wait "
    "out_of_sequence packet_seq_err local_ack_timeout_err rnr_nak_retry_err",  # mlx5
    "roce": "out_of_sequence packet_seq_err local_ack_timeout_err rnr_nak_retry_err out_of_buffer np_cnp_sent "
    "rp_cnp_handled np_ecn_marked_roce_packets port_rcv_errors port_xmit_discards "  # mlx5, up to here
    "to_retransmits seq_err_naks_rcvd max_retry_exceeded rnr_naks_rcvd unrecoverable_err oos_drop_count "
    "rx_out_of_buffer rx_cnp_pkts tx_cnp_pkts rx_ecn_marked_pkts "  # bnxt_re
    "RetransSegs tcpRetransSegs RxECNMrkd cnpSent cnpHandled InProtoErrors tcpInProtoErrors",  # irdma
}


# A GPU has at most 30 series, so some values are in the agent's snapshot only: the clock `graphics` equals that of `sm`,
# `video` tells nothing about training, a person sets `sync_boost`, and aggregate errors grow with the volatile ones.
def _clocks(hertz: Mapping[str, float]) -> dict[str, float]:
    return _without(hertz, "graphics", "video")


def _without(values: Mapping[str, _V], *left_out: str) -> dict[str, _V]:
    return {name: value for name, value in values.items() if name not in left_out}


def _links(sample: host.HostSample) -> Iterable[host.NicSample]:
    return (*(sample.nics or ()), *(sample.rdma or ()))


def shown_errors(link: host.NicSample) -> dict[str, int]:
    """Return the counters of the link that the page shows: at most MAX_COUNTERS."""
    first = _FIRST.get(link.transport, "").split()
    ranked = sorted(link.errors, key=lambda name: (first.index(name) if name in first else len(first), name))
    shown = set(ranked[:MAX_COUNTERS])
    return {name: count for name, count in link.errors.items() if name in shown}


# The subjects of the hardware metrics: labels, items in a sample of the host, and label values of an item.
LINK = Subject[host.NicSample](("host", "device", "transport"), _links, lambda nic: (nic.device, nic.transport))
LINK_COUNTERS = Subject[host.NicSample](("host", "device"), _links, lambda nic: (nic.device,))
GPU = Subject[host.GpuSample](
    ("host", "gpu", "uuid"), lambda sample: sample.gpus or (), lambda gpu: (gpu.gpu, gpu.uuid)
)
CARD = Subject[host.GpuSample](
    (*GPU.labels, "name", "pci", "nics"),
    GPU.items,
    lambda gpu: (gpu.gpu, gpu.uuid, gpu.name or "", gpu.pci or "", ",".join(gpu.nics)),
)
LOAD = Subject[host.HostLoad](HOST, lambda sample: (sample.load,) if sample.load else ())
DISK = Subject[host.DiskSample](
    ("host", "device"), lambda sample: sample.storage.disks if sample.storage else (), lambda disk: (disk.device,)
)
MOUNT = Subject[host.MountSample](
    ("host", "mount", "kind"),
    lambda sample: sample.storage.mounts if sample.storage else (),
    lambda mount: (mount.mount, mount.kind),
)
CLOCK = Subject[host.ClockSample](HOST, lambda sample: (sample.clock,) if sample.clock else ())
KERNEL = Subject[host.KernelLog](HOST, lambda sample: (sample.kernel,) if sample.kernel else ())
CGROUP = Subject[host.CgroupSample](
    ("host", "cgroup"), lambda sample: sample.cgroups or (), lambda group: (group.path,)
)
HELD = Subject[host.HeldGpus](
    ("host", "holder", "user"), lambda sample: sample.held or (), lambda held: (held.holder, held.user)
)
HELD_IDLE = Subject[host.HeldGpus](
    ("host", "holder", "kind"),
    lambda sample: [held for held in sample.held or () if held.idle_kind],
    lambda held: (held.holder, held.idle_kind),
)
TCP = Subject[host.TcpSample](HOST, lambda sample: (sample.tcp,) if sample.tcp else ())


def _measured() -> dict[str, Spec]:
    """Return the metrics of what is counted in the steps of a rank."""
    return {
        measure.metric: Spec(
            "counter" if measure.metric.endswith("_total") else "gauge",
            (*RANK, *([measure.per] if measure.per else []), *(measure.label[:1] if measure.label else [])),
            measure.help,
        )
        for measure in MEASURES
        if measure.metric
    }


SPECS: dict[str, Spec] = {
    "zmon_rank_info": Spec("gauge", (*RANK, "local_rank", "attempt", "device", "backend", "edge"), "One series per rank; always 1."),
    **_measured(),
    "zmon_lease_overdue_seconds": Spec("gauge", RANK, "Time by which the rank has exceeded its lease; 0 within the lease."),
    "zmon_activity": Spec("gauge", (*RANK, "activity"), "1 for the current activity of the rank, 0 for the others."),
    "zmon_collective_inflight_seconds": Spec("gauge", RANK, "Time since the rank entered its current collective; 0 if it is in none."),
    "zmon_report": Spec("gauge", (*RANK, "key"), "Values that the job reports with zmon.report, such as its loss."),
    "zmon_process_resident_bytes": Spec("gauge", RANK, "Resident memory of the rank's process."),
    "zmon_nic_receive_bytes_total": LINK.counter("Bytes that the link has received.", lambda nic: nic.received_bytes),
    "zmon_nic_transmit_bytes_total": LINK.counter("Bytes that the link has sent.", lambda nic: nic.transmitted_bytes),
    "zmon_nic_up": LINK.gauge("1 if the link is up.", lambda nic: nic.up),
    "zmon_nic_speed_bytes_per_second": LINK.gauge("Nominal speed of the link.", lambda nic: nic.speed_bytes_per_second),
    "zmon_nic_errors_total": LINK_COUNTERS.counter("Errors, drops and congestion of the link, by kernel counter; at most ten counters.", shown_errors, by="counter"),
    "zmon_gpu_info": CARD.gauge("One series per GPU, with its nearest network devices; always 1.", lambda gpu: 1),
    "zmon_gpu_lost": GPU.gauge("1 if the GPU fell off the bus.", lambda gpu: gpu.lost),
    "zmon_gpu_memory_used_bytes": GPU.gauge("Memory of the GPU that is in use.", lambda gpu: gpu.memory_used_bytes),
    "zmon_gpu_memory_total_bytes": GPU.gauge("Memory of the GPU.", lambda gpu: gpu.memory_total_bytes),
    "zmon_gpu_utilization_ratio": GPU.gauge("Share of time in which a kernel was running.", lambda gpu: gpu.utilization_ratio),
    "zmon_gpu_tensor_active_ratio": GPU.gauge("Share of time in which the GPU's tensor cores worked.", lambda gpu: gpu.tensor_active_ratio),
    "zmon_gpu_memory_active_ratio": GPU.gauge("Traffic of the GPU's memory, relative to its bandwidth.", lambda gpu: gpu.memory_active_ratio),
    "zmon_gpu_power_watts": GPU.gauge("Power that the GPU draws.", lambda gpu: gpu.power_watts),
    "zmon_gpu_power_limit_watts": GPU.gauge("Power that the GPU may draw.", lambda gpu: gpu.power_limit_watts),
    "zmon_gpu_temperature_celsius": GPU.gauge("Temperature of the GPU's chip.", lambda gpu: gpu.temperature_celsius),
    "zmon_gpu_memory_temperature_celsius": GPU.gauge("Temperature of the GPU's memory.", lambda gpu: gpu.memory_temperature_celsius),
    "zmon_gpu_clock_hertz": GPU.gauge("Current clock frequency of the GPU.", lambda gpu: _clocks(gpu.clocks_hertz), by="domain"),
    "zmon_gpu_max_clock_hertz": GPU.gauge("Highest clock frequency of the GPU.", lambda gpu: _clocks(gpu.max_clocks_hertz), by="domain"),
    "zmon_gpu_throttled": GPU.gauge("1 while the clock is reduced for this reason.", lambda gpu: _without(gpu.throttled, "sync_boost"), by="reason"),
    "zmon_gpu_ecc_errors_total": GPU.counter("Memory errors since the driver was loaded, and repaired rows and pages.", lambda gpu: _without(gpu.ecc_errors, "aggregate_corrected", "aggregate_uncorrected"), by="kind"),
    "zmon_gpu_repair_pending": GPU.gauge("1 if the GPU's memory needs a reset to be repaired.", lambda gpu: gpu.repair_pending),
    "zmon_gpu_xid_errors_total": GPU.counter("XID errors of the driver since the agent started.", lambda gpu: gpu.xid_errors, by="xid"),
    "zmon_gpu_pcie_bytes_total": GPU.counter("Bytes over PCIe.", lambda gpu: {"received": gpu.pcie_received_bytes, "sent": gpu.pcie_sent_bytes}, by="direction"),
    "zmon_gpu_nvlink_bytes_total": GPU.counter("Bytes over all NVLinks.", lambda gpu: {"received": gpu.nvlink_received_bytes, "sent": gpu.nvlink_sent_bytes}, by="direction"),
    "zmon_gpu_nvlink_errors_total": GPU.counter("Errors on all NVLinks.", lambda gpu: gpu.nvlink_errors),
    "zmon_host_cpu_seconds_total": LOAD.counter("CPU time of all cores.", lambda load: load.cpu_seconds, by="mode"),
    "zmon_host_runnable_processes": LOAD.gauge("Processes that run or wait for a core.", lambda load: load.runnable),
    "zmon_host_blocked_processes": LOAD.gauge("Processes that wait for a disk or a file system.", lambda load: load.blocked),
    "zmon_host_memory_available_bytes": LOAD.gauge("Memory that is available without swapping.", lambda load: load.memory_available_bytes),
    "zmon_host_memory_total_bytes": LOAD.gauge("Memory of the host.", lambda load: load.memory_total_bytes),
    "zmon_host_swap_used_bytes": LOAD.gauge("Swap in use.", lambda load: load.swap_used_bytes),
    "zmon_host_major_page_faults_total": LOAD.counter("Page faults that read from a disk.", lambda load: load.major_faults),
    "zmon_host_oom_kills_total": LOAD.counter("Processes that the kernel killed because memory ran out.", lambda load: load.oom_kills),
    "zmon_host_pressure_seconds_total": LOAD.counter("Time in which some process waited for the resource (PSI some).", lambda load: load.pressure_seconds, by="resource"),
    "zmon_host_full_pressure_seconds_total": LOAD.counter("Time in which all processes waited for the resource (PSI full).", lambda load: load.full_pressure_seconds, by="resource"),
    "zmon_host_disk_read_bytes_total": DISK.counter("Bytes read from the disk.", lambda disk: disk.read_bytes),
    "zmon_host_disk_written_bytes_total": DISK.counter("Bytes written to the disk.", lambda disk: disk.written_bytes),
    "zmon_host_disk_busy_seconds_total": DISK.counter("Time in which the disk was busy.", lambda disk: disk.busy_seconds),
    "zmon_host_disk_io_in_progress": DISK.gauge("Reads and writes in progress.", lambda disk: disk.in_progress),
    "zmon_host_mount_operations_total": MOUNT.counter("Operations on a network file system.", lambda mount: mount.operations),
    "zmon_host_mount_wait_seconds_total": MOUNT.counter("Duration of all operations on a network file system, added up.", lambda mount: mount.wait_seconds),
    "zmon_host_mount_timeouts_total": MOUNT.counter("Operations on a network file system that timed out.", lambda mount: mount.timeouts),
    "zmon_host_clock_offset_seconds": CLOCK.gauge("Offset of the host's clock from its time servers.", lambda clock: clock.offset_seconds),
    "zmon_host_clock_synchronized": CLOCK.gauge("1 if the clock follows a time server.", lambda clock: clock.synchronized),
    "zmon_host_kernel_events_total": KERNEL.counter("Lines about GPUs, memory and links in the kernel's log since the agent started.", lambda kernel: kernel.counts, by="kind"),
    "zmon_cgroup_memory_used_bytes": CGROUP.gauge("Memory in use by a control group of ranks.", lambda group: group.memory_used_bytes),
    "zmon_cgroup_memory_limit_bytes": CGROUP.gauge("Memory limit of the control group.", lambda group: group.memory_limit_bytes),
    "zmon_cgroup_cpu_limit_cores": CGROUP.gauge("CPU limit of the control group.", lambda group: group.cpu_limit_cores),
    "zmon_cgroup_throttled_seconds_total": CGROUP.counter("Time that the control group was throttled by its CPU limit.", lambda group: group.throttled_seconds),
    "zmon_cgroup_oom_kills_total": CGROUP.counter("Processes of the control group that the kernel killed because memory ran out.", lambda group: group.oom_kills),
    "zmon_held_gpus": HELD.gauge("GPUs that a job, a pod or a control group holds.", lambda held: held.num_gpus),
    "zmon_held_idle_seconds": HELD_IDLE.gauge("Time for which nothing has run on GPUs that are held, once it exceeds the lease.", lambda held: held.idle_seconds),
    "zmon_tcp_retransmitted_segments_total": TCP.counter("TCP segments that the host retransmitted.", lambda tcp: tcp.retransmitted_segments),
    "zmon_tcp_send_queue_bytes": Spec("gauge", ("host", "job_id", "rank"), "Bytes that the rank has sent over TCP and no peer has acknowledged yet."),
    "zmon_storage_read_bytes_total": Spec("counter", ("job_id", "host"), "Bytes that the job's ranks on this host and their children, such as loader workers, have read from storage."),
    "zmon_source_up": Spec("gauge", ("host", "source"), "1 if the last reading of the source succeeded."),
    "zmon_source_duration_seconds": Spec("gauge", ("host", "source"), "Duration of the last reading of the source."),
    "zmon_source_last_success_timestamp_seconds": Spec("gauge", ("host", "source"), "Unix time at which the last reading of the source succeeded."),
    "zmon_source_errors_total": Spec("counter", ("host", "source"), "Readings of the source that failed."),
    "zmon_boxes_unread": Spec("gauge", ("host", "kind"), "Ranks that live and whose black box the agent cannot read, at most 64."),
    "zmon_source_dropped_total": Spec("counter", ("host", "source"), "Items that the readings of the source left out."),
    "zmon_agent_cpu_seconds_total": Spec("counter", HOST, "CPU time of the agent itself."),
    "zmon_agent_resident_bytes": Spec("gauge", HOST, "Resident memory of the agent itself."),
    "zmon_agent_acts_total": Spec("counter", (*HOST, "act", "result"), "Requests for acts since the agent started, without repeated ones: acted, refused. Only with --allow-actions."),
    "zmon_agent_acts_stopped": Spec("gauge", (*HOST, "name", "by"), "1 while a person or a breaker has stopped the acts of the agent. Only with --allow-actions."),
    "zmon_jobs_left_out": Spec("gauge", (), "Jobs that this page leaves out: an agent shows at most 64, a hub at most 200."),
    "zmon_series_left_out": Spec("gauge", (), "Series of ranks that this page leaves out, to be within the --max-series of the agent."),
    "zmon_config_reload_success": Spec("gauge", (), "1 if the daemon uses the files of --web.config.file as they are now, 0 if it uses older ones; absent without such a file."),
    "zmon_build_info": Spec("gauge", ("version",), "Version of the daemon that answers; always 1."),
    "zmon_job_info": Spec("gauge", ("job_id", "world_size"), "One series per job, with the labels from its launch; always 1."),
    "zmon_job_throughput_samples_per_second": Spec("gauge", ("job_id",), "Samples per second of all ranks over the recent steps."),
    "zmon_job_time_seconds_total": Spec("counter", ("job_id", "cause"), "Wall-clock time of the job over all launches, by time category."),
    "zmon_job_gpu_seconds_total": Spec("counter", ("job_id", "cause"), "Time of all ranks together over all launches, by time category."),
    "zmon_job_recovery_seconds": Spec("gauge", ("job_id", "phase"), "Duration of the job's last recovery, from a fault to the first step of the next launch, by phase."),
    "zmon_job_goodput_ratio": Spec("gauge", ("job_id",), "Share of wall-clock time in steps whose work was not lost, over all launches."),
    "zmon_job_progress_ratio": Spec("gauge", ("job_id",), "Share of the planned steps that the job has reached; absent if it did not plan any."),
    "zmon_job_efficiency_ratio": Spec("gauge", ("job_id", "scaling"), "Samples per second and rank, relative to the smallest size of the baseline."),
    "zmon_job_baseline_efficiency_ratio": Spec("gauge", ("job_id", "scaling"), "Efficiency of the baseline at the job's own size."),
    "zmon_job_baseline_info": Spec("gauge", ("job_id", "scaling", "baseline", "ranks", "samples"), "Baseline that the job is compared with, its ranks and samples per step; always 1."),
    "zmon_job_flops_ratio": Spec("gauge", ("job_id", "source", "per"), "Floating-point operations of all ranks relative to the peak of their devices, per recent step time or per wall-clock time."),
    "zmon_job_memory_bandwidth_ratio": Spec("gauge", ("job_id", "source"), "Memory traffic of all ranks relative to the memory bandwidth of their devices, per recent step time."),
    "zmon_job_roofline_ratio": Spec("gauge", ("job_id",), "Floating-point operations relative to what peak and memory bandwidth allow at the job's operations per byte (roofline)."),
    "zmon_job_expected_step_seconds": Spec("gauge", ("job_id", "by", "cause"), "Expected duration of a step, recorded or predicted at the job's size."),
    "zmon_finding": Spec("gauge", ("job_id", "detector", "cause", "severity", "rank", "host"), "1 while the finding is active. A hub with --shard adds the label `shard`, one with --alert-labels the declared labels of the job."),
    "zmon_job_ends_total": Spec("counter", ("outcome",), "Launches whose end the hub has recorded since it started, by outcome."),
    "zmon_hub_acts_total": Spec("counter", ("act", "cause", "result"), "Intents to act since the hub started: observed, refused, unanswered, acted."),
    "zmon_hub_acts_stopped": Spec("gauge", ("name", "by"), "1 while a person or a breaker has stopped all acts (all) or those of a rule (rule-NAME)."),
    "zmon_hub_notices_total": Spec("counter", ("recipient", "result"), "Tries to send a notice since the hub started: sent, failed (it is tried again), dropped."),
    "zmon_hub_coverage_ratio": Spec("gauge", ("job_id",), "Share of the job's ranks that agents report."),
    "zmon_hub_report_left_out": Spec("gauge", ("host",), "Parts of the agent's last report that the hub could not decode."),
    "zmon_hub_pass_seconds": Spec("gauge", (), "Duration of the hub's last pass over all agents."),
    "zmon_hub_last_pass_timestamp_seconds": Spec("gauge", (), "Unix time at which the hub last finished a pass in which an agent answered. A hub with --shard adds the label `shard`."),
    "zmon_hub_expected_shard": Spec("gauge", ("shard",), "1 for each shard of which a hub must run; only from hubs with --shard."),
}  # fmt: skip
STEP_HISTOGRAM = "zmon_job_step_duration_seconds"
