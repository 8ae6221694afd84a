"""What a host's hardware showed, and how the sources that read it are doing.

Frozen data only. Counters count since boot; `None` means the host does not tell, and is never written as 0.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NicSample:
    """One network interface; counters since boot."""

    device: str
    transport: str
    up: bool | None
    speed_bytes_per_second: float | None
    received_bytes: int | None
    transmitted_bytes: int | None
    errors: dict[str, int]


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU; what the card does not tell is None."""

    index: int
    uuid: str
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    utilization_ratio: float | None
    power_watts: float | None
    temperature_celsius: float | None
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HostLoad:
    """CPU time by mode since boot, and memory now."""

    cpu_seconds: dict[str, float]
    memory_available_bytes: int
    memory_total_bytes: int
    swap_used_bytes: int


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How one source of the agent is doing. `absent`: nothing to read on this machine (no GPU, say)."""

    name: str
    up: bool
    absent: bool
    duration_seconds: float
    last_success_time: float | None
    num_errors: int
    error: str | None


@dataclass(frozen=True, slots=True)
class HostSample:
    """One host: what each source last read; None where the source is down or absent."""

    nics: tuple[NicSample, ...] | None = None
    gpus: tuple[GpuSample, ...] | None = None
    load: HostLoad | None = None
