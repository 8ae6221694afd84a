"""On which card does a rank compute, where its box does not say?

The driver knows which processes use which card. What it said once holds: a rank stays on its card, and when the card is
lost the driver knows no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zmon.schema.host import GpuSample
from zmon.schema.rank import RankState

_UUIDS = ("GPU-", "MIG-")  # what NVML's begin with


class Devices:
    """The cards of the ranks that there are."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}  # UUID by the rank's run

    def add(self, ranks: Sequence[tuple[RankState, int]], gpus: Iterable[GpuSample]) -> tuple[RankState, ...]:
        """The ranks, given with their pids as seen from here, with their cards' UUIDs as far as they are known."""
        cards = [gpu for gpu in gpus if not gpu.mig]  # a split card tells its instances' processes, too
        for state, pid in ranks:
            uuids = {gpu.uuid for gpu in cards if pid and pid in gpu.pids}
            if len(uuids) == 1:  # on several it is on no one card
                self._known[state.run_uid] = uuids.pop()
        return tuple(self._with_device(state) for state, _ in ranks)

    def keep(self, run_uids: Iterable[str]) -> None:
        """Forget all other ranks."""
        self._known = {uid: self._known[uid] for uid in run_uids if uid in self._known}

    def _with_device(self, state: RankState) -> RankState:
        if state.device.startswith(_UUIDS):
            return state
        return replace(state, device=self._known.get(state.run_uid, state.device))
