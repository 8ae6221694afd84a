"""What /metrics says of a host: its hardware, as far as it was read."""

from __future__ import annotations

from zmon.metrics.page import Page
from zmon.schema.host import GpuSample, HostLoad, HostSample, NicSample, Storage


def add_host(page: Page, host: str, sample: HostSample) -> None:
    """All series of one host."""
    for nic in (*(sample.nics or ()), *(sample.rdma or ())):
        _add_nic(page, host, nic)
    for gpu in sample.gpus or ():
        _add_gpu(page, host, gpu)
    if sample.load is not None:
        _add_load(page, host, sample.load)
    if sample.storage is not None:
        _add_storage(page, host, sample.storage)
    if sample.clock is not None:
        page.add("zmon_host_clock_offset_seconds", sample.clock.offset_seconds, host)
        page.add("zmon_host_clock_synchronized", float(sample.clock.synchronized), host)
    if sample.kernel is not None:
        for kind, count in sample.kernel.counts.items():
            page.add("zmon_host_kernel_events_total", count, host, kind)
    for cgroup in sample.cgroups or ():
        page.add("zmon_cgroup_memory_used_bytes", cgroup.memory_used_bytes, host, cgroup.path)
        page.add("zmon_cgroup_memory_limit_bytes", cgroup.memory_limit_bytes, host, cgroup.path)
        page.add("zmon_cgroup_cpu_limit_cores", cgroup.cpu_limit_cores, host, cgroup.path)
        page.add("zmon_cgroup_throttled_seconds_total", cgroup.throttled_seconds, host, cgroup.path)
        page.add("zmon_cgroup_oom_kills_total", cgroup.oom_kills, host, cgroup.path)
    if sample.tcp is not None:
        page.add("zmon_tcp_retransmitted_segments_total", sample.tcp.retransmitted_segments, host)


def _add_nic(page: Page, host: str, nic: NicSample) -> None:
    where = (host, nic.device, nic.transport)
    page.add("zmon_nic_receive_bytes_total", nic.received_bytes, *where)
    page.add("zmon_nic_transmit_bytes_total", nic.transmitted_bytes, *where)
    page.add("zmon_nic_up", None if nic.up is None else float(nic.up), *where)
    page.add("zmon_nic_speed_bytes_per_second", nic.speed_bytes_per_second, *where)
    for counter, count in nic.errors.items():
        page.add("zmon_nic_errors_total", count, host, nic.device, counter)


def _add_gpu(page: Page, host: str, gpu: GpuSample) -> None:
    card = (host, gpu.gpu, gpu.uuid)
    page.add("zmon_gpu_info", 1, *card, gpu.name or "", gpu.pci or "", ",".join(gpu.nics))
    page.add("zmon_gpu_lost", float(gpu.lost), *card)
    page.add("zmon_gpu_memory_used_bytes", gpu.memory_used_bytes, *card)
    page.add("zmon_gpu_memory_total_bytes", gpu.memory_total_bytes, *card)
    page.add("zmon_gpu_utilization_ratio", gpu.utilization_ratio, *card)
    page.add("zmon_gpu_power_watts", gpu.power_watts, *card)
    page.add("zmon_gpu_power_limit_watts", gpu.power_limit_watts, *card)
    page.add("zmon_gpu_temperature_celsius", gpu.temperature_celsius, *card)
    page.add("zmon_gpu_memory_temperature_celsius", gpu.memory_temperature_celsius, *card)
    for domain, clock in gpu.clocks_hertz.items():
        page.add("zmon_gpu_clock_hertz", clock, *card, domain)
    for domain, clock in gpu.max_clocks_hertz.items():
        page.add("zmon_gpu_max_clock_hertz", clock, *card, domain)
    for reason, throttled in gpu.throttled.items():
        page.add("zmon_gpu_throttled", float(throttled), *card, reason)
    for kind, count in gpu.ecc_errors.items():
        page.add("zmon_gpu_ecc_errors_total", count, *card, kind)
    page.add("zmon_gpu_repair_pending", None if gpu.repair_pending is None else float(gpu.repair_pending), *card)
    for xid, count in gpu.xid_errors.items():
        page.add("zmon_gpu_xid_errors_total", count, *card, xid)
    page.add("zmon_gpu_pcie_bytes_total", gpu.pcie_received_bytes, *card, "received")
    page.add("zmon_gpu_pcie_bytes_total", gpu.pcie_sent_bytes, *card, "sent")
    page.add("zmon_gpu_nvlink_bytes_total", gpu.nvlink_received_bytes, *card, "received")
    page.add("zmon_gpu_nvlink_bytes_total", gpu.nvlink_sent_bytes, *card, "sent")
    page.add("zmon_gpu_nvlink_errors_total", gpu.nvlink_errors, *card)


def _add_load(page: Page, host: str, load: HostLoad) -> None:
    for mode, seconds in load.cpu_seconds.items():
        page.add("zmon_host_cpu_seconds_total", seconds, host, mode)
    page.add("zmon_host_runnable_processes", load.runnable, host)
    page.add("zmon_host_blocked_processes", load.blocked, host)
    page.add("zmon_host_memory_available_bytes", load.memory_available_bytes, host)
    page.add("zmon_host_memory_total_bytes", load.memory_total_bytes, host)
    page.add("zmon_host_swap_used_bytes", load.swap_used_bytes, host)
    page.add("zmon_host_major_page_faults_total", load.major_faults, host)
    page.add("zmon_host_oom_kills_total", load.oom_kills, host)
    for resource, seconds in load.pressure_seconds.items():
        page.add("zmon_host_pressure_seconds_total", seconds, host, resource)
    for resource, seconds in load.full_pressure_seconds.items():
        page.add("zmon_host_full_pressure_seconds_total", seconds, host, resource)


def _add_storage(page: Page, host: str, storage: Storage) -> None:
    for disk in storage.disks:
        page.add("zmon_host_disk_read_bytes_total", disk.read_bytes, host, disk.device)
        page.add("zmon_host_disk_written_bytes_total", disk.written_bytes, host, disk.device)
        page.add("zmon_host_disk_busy_seconds_total", disk.busy_seconds, host, disk.device)
        page.add("zmon_host_disk_io_in_progress", disk.in_progress, host, disk.device)
    for mount in storage.mounts:
        where = (host, mount.mount, mount.kind)
        page.add("zmon_host_mount_operations_total", mount.operations, *where)
        page.add("zmon_host_mount_wait_seconds_total", mount.wait_seconds, *where)
        page.add("zmon_host_mount_timeouts_total", mount.timeouts, *where)
