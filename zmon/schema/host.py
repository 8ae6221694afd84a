"""The hardware readings of a host, and the state of the sources that read them.

Frozen data, and two functions for the increase of counters. Counters count since boot unless their comment names
another start. `None` means that the host does not report the value; it is never written as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from zmon.schema.limits import Seconds

_Key = TypeVar("_Key", int, str)


def increase(before: int | None, now: int | None) -> int | None:
    """Return the increase of a counter; None if unknown, or if it fell (a new agent, a reboot, another device)."""
    return None if before is None or now is None or now < before else now - before


def increased(before: Mapping[_Key, int], now: Mapping[_Key, int], absent: int | None = None) -> dict[_Key, int]:
    """Return the increase of each counter that has increased.

    `absent` is the earlier count of a counter that did not exist before; None: its increase is unknown.
    """
    return {key: more for key, count in now.items() if (more := increase(before.get(key, absent), count))}


@dataclass(frozen=True, slots=True)
class NicSample:
    """One network interface or RDMA port."""

    device: str  # eth0, or mlx5_0:1 for a port of an RDMA device
    transport: str  # tcp · infiniband · roce · iwarp · efa
    up: bool | None
    speed_bytes_per_second: float | None
    received_bytes: int | None
    transmitted_bytes: int | None
    errors: dict[str, int]  # the kernel's name of the counter → count
    bond: str | None = None  # the bond to which it belongs
    pci: str | None = None  # PCI address, such as 0000:3b:00.0


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU, or one MIG instance of it."""

    gpu: str  # its index; 0:1 for instance 1 of GPU 0
    uuid: str
    name: str | None = None
    pci: str | None = None  # 0000:3b:00.0, as sysfs writes it
    lost: bool = False  # it fell off the bus; everything else is unknown
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    utilization_ratio: float | None = None  # share of time in which a kernel was running
    tensor_active_ratio: float | None = None  # share of time in which the tensor cores worked, a mean over all of them
    memory_active_ratio: float | None = None  # bytes read and written, relative to the bandwidth of its memory
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    clocks_hertz: dict[str, float] = field(default_factory=dict)  # domain (graphics, sm, memory, video) → hertz
    max_clocks_hertz: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, bool] = field(default_factory=dict)  # reason (hw_thermal, sw_power_cap, …) → active
    ecc_errors: dict[str, int] = field(default_factory=dict)  # kind (volatile_uncorrected, …) → count
    repair_pending: bool | None = None  # pages or rows wait for a reset to be retired or remapped
    xid_errors: dict[int, int] = field(default_factory=dict)  # XID → count since the agent started
    pcie_received_bytes: int | None = None
    pcie_sent_bytes: int | None = None
    nvlink_received_bytes: int | None = None
    nvlink_sent_bytes: int | None = None
    nvlink_errors: int | None = None
    mig: bool | None = None  # True: it is split into instances
    pids: tuple[int, ...] = ()
    nics: tuple[str, ...] = ()  # the nearest ones by PCI: RDMA ports, or else interfaces
    minor: int | None = None  # the number of its device: 0 for /dev/nvidia0; an instance has none


@dataclass(frozen=True, slots=True)
class HostLoad:
    """Processor and memory of a host, and the processes that wait for them."""

    cpu_seconds: dict[str, float]  # mode → seconds, all cores
    memory_available_bytes: int
    memory_total_bytes: int
    swap_used_bytes: int
    runnable: int | None = None  # processes that run or wait for a core
    blocked: int | None = None  # processes that wait for a disk or a file system
    major_faults: int | None = None
    oom_kills: int | None = None
    pressure_seconds: dict[str, float] = field(default_factory=dict)  # PSI "some": cpu, memory or io → seconds
    full_pressure_seconds: dict[str, float] = field(default_factory=dict)  # PSI "full"


@dataclass(frozen=True, slots=True)
class DiskSample:
    """One disk."""

    device: str
    read_bytes: int
    written_bytes: int
    busy_seconds: float
    in_progress: int


@dataclass(frozen=True, slots=True)
class MountSample:
    """One network file system."""

    mount: str
    kind: str  # nfs, nfs4, …
    operations: int
    wait_seconds: float  # sum over all operations, from request to answer
    timeouts: int


@dataclass(frozen=True, slots=True)
class Storage:
    """Disks and network file systems."""

    disks: tuple[DiskSample, ...]
    mounts: tuple[MountSample, ...]


@dataclass(frozen=True, slots=True)
class CgroupSample:
    """One control group of ranks, with its use and limits."""

    path: str
    ranks: tuple[tuple[str, int], ...]  # job id and rank
    memory_used_bytes: int | None
    memory_limit_bytes: int | None  # None: no limit, or unknown
    cpu_limit_cores: float | None
    throttled_seconds: float | None  # time in which its CPU limit throttled it
    oom_kills: int | None


@dataclass(frozen=True, slots=True)
class HeldGpus:
    """GPUs that a job, a pod or a control group holds, and since when nothing has run on them."""

    holder: str
    user: str  # "": unknown
    num_gpus: int
    # What is left there (zmon/job/held.py), and for how long. None: something runs, or nothing for less than its
    # lease, or it is unknown.
    idle_kind: str | None = None
    idle_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ClockSample:
    """The host's clock compared with the time servers that it follows."""

    offset_seconds: float | None  # None: it follows no time server
    synchronized: bool


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """A line of the kernel's log that is relevant to a job."""

    time: Seconds  # unix seconds
    kind: str  # xid · oom · link
    device: str | None  # PCI address or interface
    text: str
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class KernelLog:
    """The relevant lines of the kernel's log since the agent started: a count of each kind, and the last lines."""

    counts: dict[str, int]
    events: tuple[KernelEvent, ...]


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """The process of one rank."""

    job_id: str
    rank: int
    pid: int
    # The share of the last 6 s for which its main thread could run and waited for a processor. None: the kernel does
    # not count it, or the agent has not watched the process for as long.
    run_delay_ratio: float | None = None
    # Read from storage by the process and its children, such as loader workers, since the agent first saw the process.
    # What the page cache had is not included. None: the agent may not read it.
    storage_read_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TcpPeer:
    """All TCP connections of one rank to one address."""

    job_id: str
    rank: int
    peer: str
    num_sockets: int
    send_queue_bytes: int
    receive_queue_bytes: int
    retransmitted_segments: int  # sum over open connections
    delivery_bytes_per_second: float | None  # rate of the fastest connection, as the kernel last measured it
    round_trip_seconds: float | None  # smoothed time of the slowest connection
    acked_bytes: int | None = None  # sum over open connections
    busy_seconds: float | None = None  # time in which open connections had bytes under way and the peer had room
    # Connections whose unacknowledged data timed out and was sent again. None: the agent's version does not report it.
    num_waiting: int | None = None
    num_timeouts: int | None = None  # such timeouts in a row, on the connection with the most


@dataclass(frozen=True, slots=True)
class TcpSample:
    """The TCP counters of a host, and the connections of its ranks."""

    retransmitted_segments: int | None  # all connections of the host, since boot
    peers: tuple[TcpPeer, ...]
    addresses: tuple[str, ...] = ()  # the host's own addresses in those connections
    devices: tuple[str, ...] = ()  # the interfaces that have these addresses
    # While a job stands still: for each address of another host, True if it answered just now. None: not asked.
    answers: Mapping[str, bool] | None = None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The state of one source of the agent. `absent`: there is nothing to read, such as no GPU."""

    name: str
    up: bool
    absent: bool
    duration_seconds: float
    last_success_time: Seconds | None
    num_errors: int
    error: str | None
    num_dropped: int = 0  # items left out of its readings so far
    dropped: tuple[str, ...] = ()  # the items that the last reading left out, each with the reason


@dataclass(frozen=True, slots=True)
class HostSample:
    """The last reading of each source of a host; None where the source is down, absent or switched off."""

    nics: tuple[NicSample, ...] | None = None
    rdma: tuple[NicSample, ...] | None = None
    gpus: tuple[GpuSample, ...] | None = None
    tcp: TcpSample | None = None
    load: HostLoad | None = None
    storage: Storage | None = None
    cgroups: tuple[CgroupSample, ...] | None = None
    clock: ClockSample | None = None
    kernel: KernelLog | None = None
    processes: tuple[ProcessSample, ...] | None = None
    held: tuple[HeldGpus, ...] | None = None


@dataclass(frozen=True, slots=True)
class HostWindow:
    """The hardware of a host at two moments, to see the increase of its counters in between."""

    host: str
    seconds: float
    before: HostSample
    now: HostSample
    worked: frozenset[str] = frozenset()  # links once up, and GPUs (by UUID) once present, while the host was watched
    recent: TcpSample | None = None  # its connections a few seconds ago, to see recent changes

    @property
    def pressure_seconds(self) -> dict[str, float]:
        """The seconds of the window in which processes waited, by resource; empty if the host does not report them.

        The source is PSI "some" (Linux Documentation/accounting/psi.rst): at least one process waited.
        """
        then, now = self.before.load, self.now.load
        if then is None or now is None:
            return {}
        before = then.pressure_seconds
        return {name: max(total - before[name], 0.0) for name, total in now.pressure_seconds.items() if name in before}

    @property
    def pressure_ratio(self) -> dict[str, float]:
        """The share of the window in which processes waited, by resource."""
        pressure = self.pressure_seconds if self.seconds > 0 else {}
        return {resource: seconds / self.seconds for resource, seconds in pressure.items()}
