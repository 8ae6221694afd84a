"""On which card does a rank compute, where its box does not say?

Pure. The driver knows which processes use which card.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from zmon.hardware import GpuSample
from zmon.records import RankState

_UUIDS = ("GPU-", "MIG-")  # what NVML's begin with


def with_device(state: RankState, pid: int, gpus: Iterable[GpuSample]) -> RankState:
    """The rank with the UUID of the one card that its process is on; on several, or on none, it is as it was."""
    if state.device.startswith(_UUIDS) or not pid:
        return state
    uuids = {gpu.uuid for gpu in gpus if pid in gpu.pids and not gpu.mig}  # a split card tells its instances' too
    return replace(state, device=uuids.pop()) if len(uuids) == 1 else state
