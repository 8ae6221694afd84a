"""Report the holders that leave their GPUs idle: never used, left by their ranks, or held by ranks that hang.

NVML shows whether a GPU is busy, so a process that zmon does not watch counts too. A GPU that is split into instances
has no utilization, so it is reported as unknown. The agent keeps idle times in memory, so they begin anew after a
restart.

A GPU belongs to a pod if a process of the pod's control group is on it. A GPU that computes for a process outside of
all known pods may belong to any pod with fewer GPUs than its limit. It is then unknown whether this pod is idle. The
same holds for an agent that does not see all processes of the host, because it is in another PID namespace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from zmon.agent.sources.holders import FOLDER, Holder, holders
from zmon.agent.sources.reading import Reading, text_of
from zmon.job.held import NEVER_RAN, UNKNOWN, HolderState, Holding
from zmon.job.lease import Leases
from zmon.schema.host import GpuSample, HeldGpus
from zmon.schema.rank import RankState

LIST_SECONDS = 10.0  # time between two lists of holders, each of which reads all control groups
MAX_GAP_SECONDS = 60.0  # after a longer time without a sample, it is unknown whether the GPUs were in use meanwhile
_HIDDEN = "the processes of pods are not visible: run the agent in the PID namespace of the host (hostPID)"
_HOST_PIDS = "pid:[4026531836]"  # the PID namespace of the host: PROC_PID_INIT_INO in linux/proc_ns.h


class HeldSource:
    """The holders of this node's GPUs, each with its idle time if that is longer than the lease."""

    name = "held"
    field = "held"
    interval_seconds = 2.0

    def __init__(
        self,
        gpus: Callable[[], Sequence[GpuSample] | None],
        ranks: Callable[[], Sequence[tuple[RankState, int]]],
        leases: Leases,
        pods: Callable[[], Sequence[Holder] | None] = lambda: None,
        proc: Path = Path("/proc"),
        cgroup: Path = Path("/sys/fs/cgroup"),
        folder: Path = FOLDER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read holders from `cgroup` and `folder`, and from `pods`, which returns None while they are unknown.

        `gpus` returns the last samples, or None if they are unknown, and raises SourceUnavailable on a node without
        GPUs. `ranks` returns each rank with its pid in this PID namespace, 0 if the rank is in another PID namespace.
        """
        self._gpus, self._ranks, self._list_pods, self._clock = gpus, ranks, pods, clock
        self._lease_seconds = leases.held_idle_seconds
        self._proc, self._cgroup, self._folder = proc, cgroup, folder
        self._holdings: dict[Holder, Holding] | None = None  # None: no sample, or no recent one
        self._listed_at = self._read_at = self._pods_at = clock()
        self._pods: Sequence[Holder] | None = None  # the last list, unless it is too old
        self._unlisted: tuple[str, ...] = ()  # a line for each thing that the last list left out

    def read(self) -> Reading:
        """Return a value for each holder."""
        gpus = self._gpus()
        now = self._clock()
        if now - self._read_at > MAX_GAP_SECONDS:
            self._holdings = None
        self._read_at = now
        if self._holdings is None or now - self._listed_at >= LIST_SECONDS:
            self._holdings = self._list(now)
        if not self._holdings:
            return Reading((), self._unlisted)
        node = _Node(gpus or (), self._ranks(), tuple(self._holdings), self._proc)
        dropped = [*self._unlisted, *([_HIDDEN] if node.hides_pods else [])]
        held: list[HeldGpus] = []
        for holder, holding in self._holdings.items():
            state = node.state_of(holder)
            if state.busy is None and not state.overdue_seconds:
                dropped.append(f"{holder.name}: it is unknown whether its GPUs are idle")
            idle = holding.idle(now, state)
            if idle is not None and idle.kind in (NEVER_RAN, UNKNOWN) and node.may_be_monitor(holder):
                idle = None
            if idle is None or idle.seconds < self._lease_seconds:
                held.append(HeldGpus(holder.name, holder.user, holder.num_gpus))
            else:
                held.append(HeldGpus(holder.name, holder.user, holder.num_gpus, idle.kind, idle.seconds))
        return Reading(tuple(held), tuple(dropped))

    def _list(self, now: float) -> dict[Holder, Holding]:
        """Return the present holders. A holder that the last list did not have is new; its idle time begins now."""
        before, pods_before = self._holdings, self._pods
        self._holdings = None  # if the holders are unknown now, what runs there meanwhile is unknown
        self._update_pods(now)
        dropped: list[str] = []
        listed = holders(self._cgroup, self._folder, dropped, self._pods)
        self._listed_at, self._unlisted = now, tuple(dropped)
        known = before or {}
        is_new = before is not None
        is_new_pod = is_new and pods_before is not None  # a list without pods does not show that a pod is new
        return {holder: known.get(holder) or Holding(now, is_new if holder.gpus else is_new_pod) for holder in listed}

    def _update_pods(self, now: float) -> None:
        """List the pods. If that fails, the last list stays for MAX_GAP_SECONDS, because one request may fail."""
        pods = self._list_pods()
        if pods is not None:
            self._pods, self._pods_at = pods, now
        elif now - self._pods_at > MAX_GAP_SECONDS:
            self._pods = None


class _Node:
    """The GPUs, the ranks and the processes of a node at one moment."""

    def __init__(
        self, gpus: Sequence[GpuSample], ranks: Sequence[tuple[RankState, int]], listed: Sequence[Holder], proc: Path
    ) -> None:
        self._gpus = {gpu.minor: gpu for gpu in gpus if gpu.minor is not None}  # by the number of the device
        pids = {pid for gpu in gpus for pid in gpu.pids} | {pid for _, pid in ranks if pid}
        self._groups = {pid: text_of(proc / str(pid) / "cgroup").splitlines() for pid in pids}  # control groups
        pods = [holder for holder in listed if not holder.gpus]
        self._gpus_of_pods = {
            pod: [gpu for gpu in gpus if any(self._is_in(pod, pid) for pid in gpu.pids)] for pod in pods
        }
        # True if processes of pods may be invisible.
        self.hides_pods = bool(pods) and (proc / "self/ns/pid").resolve().name != _HOST_PIDS
        self._has_unplaced_gpu = self._may_compute_elsewhere(gpus)
        self._ranks = {
            holder: [state for state, pid in ranks if self._has_rank(holder, state, pid)] for holder in listed
        }
        placed = {state.run_uid for states in self._ranks.values() for state in states}
        # A rank that initializes may not be on a GPU yet, so its holder may be any.
        self._has_unplaced_rank = any(
            state.alive and state.steps == 0 and state.activity != "done" and state.run_uid not in placed
            for state, _ in ranks
        )

    def _may_compute_elsewhere(self, gpus: Sequence[GpuSample]) -> bool:
        """Return True if a GPU or instance outside of all known pods computes, or may compute. Any pod may hold it."""
        if not gpus:
            return True
        placed = {gpu.gpu for gpus_of_pod in self._gpus_of_pods.values() for gpu in gpus_of_pod}
        return any(gpu.utilization_ratio != 0 and gpu.gpu not in placed for gpu in gpus)

    def may_be_monitor(self, holder: Holder) -> bool:
        """Return True for a control group with all GPUs, because a program that only monitors GPUs has one too."""
        return not holder.is_allocation and holder.num_gpus >= len(self._gpus)

    def state_of(self, holder: Holder) -> HolderState:
        """Return the state of a holder at this moment."""
        ranks = self._ranks[holder]
        gpus = self._gpus_of(holder)
        pids = {pid for gpu in gpus if gpu for pid in gpu.pids}
        busy = self._is_busy(gpus)
        if self.may_be_monitor(holder):  # processes on its GPUs may belong to other holders
            ran = any(self._is_in(holder, pid) for pid in pids)
        else:
            ran = bool(pids) or busy is True
        overdue = [state.overdue_seconds for state in ranks if state.alive and state.activity != "done"]
        return HolderState(overdue, busy, has_process=bool(pids), ran=ran or bool(ranks))

    def _is_busy(self, gpus: Sequence[GpuSample | None]) -> bool | None:
        """Return whether one of these GPUs is in use; None if that is unknown."""
        ratios = [gpu.utilization_ratio if gpu else None for gpu in gpus]
        if any(ratios):
            return True
        return None if None in ratios or self._has_unplaced_rank else False

    def _gpus_of(self, holder: Holder) -> list[GpuSample | None]:
        """Return the samples of the holder's GPUs; None for a GPU without a sample, or for GPUs that may be missing."""
        if holder.gpus:
            return [self._gpus.get(number) for number in holder.gpus]
        gpus = self._gpus_of_pods[holder]
        may_miss = len(gpus) < holder.num_gpus and (self.hides_pods or self._has_unplaced_gpu)
        return [*gpus, None] if may_miss else [*gpus]

    def _has_rank(self, holder: Holder, state: RankState, pid: int) -> bool:
        """Return True if the rank has the name of the holder, or lives in its control group or on one of its GPUs."""
        if f"{state.job_id}.".startswith(f"{holder.name}."):
            return True
        if not state.alive:  # another process may have its pid, and another holder its GPU, by now
            return False
        gpus = () if self.may_be_monitor(holder) else map(self._gpus.get, holder.gpus)
        return self._is_in(holder, pid) or any(state.device == gpu.uuid or pid in gpu.pids for gpu in gpus if gpu)

    def _is_in(self, holder: Holder, pid: int) -> bool:
        return any(map(holder.has, self._groups.get(pid, ())))
