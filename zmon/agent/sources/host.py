"""Read how busy the host's processors and memory are, and how long tasks waited for them.

Layout, proc(5): /proc/stat counts clock ticks, /proc/meminfo KiB, /proc/vmstat events, all since boot. `user` includes
`guest`, and `nice` includes `guest_nice`: a sum of all modes counts guests twice. Documentation/accounting/psi.rst:
/proc/pressure has the microseconds in which some tasks, or all of them, waited. It is unknown if the kernel lacks it
or has it switched off (`psi=0`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from zmon.agent.sources.reading import Reading, number_after, text_of
from zmon.errors import SourceUnavailable
from zmon.schema.host import HostLoad

MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
RESOURCES = ("cpu", "memory", "io")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
KIBIBYTE = 1024


class HostSource:
    """The load of the host: CPU time by mode, queues, memory, swap, faults, OOM kills and pressure."""

    name = "host"
    field = "load"
    interval_seconds = 2.0

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def read(self) -> Reading:
        """Return the load now. Raises SourceUnavailable if /proc/meminfo cannot be read."""
        try:
            meminfo = (self._proc / "meminfo").read_text(errors="replace")
        except (FileNotFoundError, PermissionError) as error:
            raise SourceUnavailable(
                f"cannot read {self._proc}/meminfo", f"{error.strerror}", "mount /proc where the agent runs"
            ) from error
        pressure = {resource: text_of(self._proc / "pressure" / resource) for resource in RESOURCES}
        load = host_load(meminfo, text_of(self._proc / "stat"), text_of(self._proc / "vmstat"), pressure)
        return Reading(load, () if load.cpu_seconds else (f"cannot read CPU time from {self._proc}/stat",))


def host_load(meminfo: str, stat: str, vmstat: str, pressure: dict[str, str]) -> HostLoad:
    """Return the load from the content of these files. Raises ValueError if the memory is missing."""
    by_resource = {resource: _stalls(text) for resource, text in pressure.items()}
    return HostLoad(
        cpu_seconds=_cpu_seconds(stat),
        memory_available_bytes=_bytes(meminfo, "MemAvailable"),
        memory_total_bytes=_bytes(meminfo, "MemTotal"),
        swap_used_bytes=_bytes(meminfo, "SwapTotal") - _bytes(meminfo, "SwapFree"),
        runnable=number_after("procs_running", stat),
        blocked=number_after("procs_blocked", stat),
        major_faults=number_after("pgmajfault", vmstat),
        oom_kills=number_after("oom_kill", vmstat),
        pressure_seconds={resource: stalls["some"] for resource, stalls in by_resource.items() if "some" in stalls},
        full_pressure_seconds={
            resource: stalls["full"]
            for resource, stalls in by_resource.items()
            if "full" in stalls and resource != "cpu"  # meaningless for a whole host: the kernel writes 0
        },
    )


def _cpu_seconds(stat: str) -> dict[str, float]:
    """Return the CPU time by mode, all processors together."""
    line = re.match(r"cpu +([\d ]+)$", stat, re.M)
    ticks = line[1].split() if line else []
    return {mode: int(count) / TICKS_PER_SECOND for mode, count in zip(MODES, ticks, strict=False)}


def _stalls(text: str) -> dict[str, float]:
    """Return the seconds in which some tasks waited (`some`), and in which all tasks waited (`full`)."""
    return {kind: int(micros) / 1e6 for kind, micros in re.findall(r"^(some|full) .*total=(\d+)$", text, re.M)}


def _bytes(meminfo: str, name: str) -> int:
    kibibytes = number_after(name, meminfo)
    if kibibytes is None:
        raise ValueError(f"meminfo has no {name}")
    return kibibytes * KIBIBYTE
