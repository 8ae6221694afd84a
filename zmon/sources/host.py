"""Is the host itself short of CPU or memory? Read through psutil."""

from __future__ import annotations

import psutil

from zmon.hardware import HostLoad


class HostSource:
    """CPU time by mode, memory, swap."""

    name = "host"
    field = "load"
    interval_seconds = 2.0

    def read(self) -> HostLoad:
        """The load of this host."""
        memory = psutil.virtual_memory()
        return HostLoad(
            cpu_seconds=dict(psutil.cpu_times()._asdict()),
            memory_available_bytes=memory.available,
            memory_total_bytes=memory.total,
            swap_used_bytes=psutil.swap_memory().used,
        )
