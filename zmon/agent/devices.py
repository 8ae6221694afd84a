"""Find the GPU of each rank whose box does not name it: the driver lists the processes of each GPU.

What it lists is remembered, because a rank stays on its GPU, and the processes of a lost GPU are no longer listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zmon.schema.host import GpuSample
from zmon.schema.rank import RankState

_UUIDS = ("GPU-", "MIG-")  # prefixes of NVML's UUIDs


class Devices:
    """The GPUs of the ranks that the driver has listed so far."""

    def __init__(self) -> None:
        self._uuids: dict[str, str] = {}  # GPU UUID by run uid

    def add(self, ranks: Sequence[tuple[RankState, int]], gpus: Iterable[GpuSample]) -> tuple[RankState, ...]:
        """Return the states with the UUIDs of their GPUs, where those are known.

        `ranks` has each state with its pid in this PID namespace; 0 if it has none.
        """
        devices = [gpu for gpu in gpus if not gpu.mig]  # a GPU in MIG mode lists the processes of its instances, too
        for state, pid in ranks:
            uuids = {gpu.uuid for gpu in devices if pid and pid in gpu.pids}
            if len(uuids) == 1:  # a rank on several GPUs has no single device
                self._uuids[state.run_uid] = uuids.pop()
        return tuple(self._with_device(state) for state, _ in ranks)

    def keep(self, run_uids: Iterable[str]) -> None:
        """Forget all ranks except these."""
        self._uuids = {uid: self._uuids[uid] for uid in run_uids if uid in self._uuids}

    def _with_device(self, state: RankState) -> RankState:
        if state.device.startswith(_UUIDS):
            return state
        return replace(state, device=self._uuids.get(state.run_uid, state.device))
