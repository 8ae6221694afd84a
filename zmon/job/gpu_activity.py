"""The activity of the tensor cores and the memory of a job's GPUs, as the GPUs themselves measure it. Pure.

This needs neither the operations of the job nor the peak of its devices. It is not the job's share of the peak in
operations: tensor cores at a low clock, or on padded data, are as busy. If another process uses a GPU, its work counts
as well.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from zmon.job.time_account import Account
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.utilization import GpuActivity

SAMPLE_SECONDS = 5.0  # an agent reads a GPU every second; the means over a minute need no more than this
_RECENT_SAMPLES = 12


@dataclass(frozen=True, slots=True)
class ActivitySample:
    """The mean activity of all GPUs of a job, over about a second."""

    tensor_ratio: float
    memory_ratio: float | None


def activity_of(snapshot: Snapshot) -> ActivitySample | None:
    """Return the activity of a job's GPUs now; None if that of one is unknown."""
    if snapshot.num_missing or snapshot.unwatched:
        return None
    of_host = {gpu.uuid: gpu for window in snapshot.hardware for gpu in window.now.gpus or ()}
    gpus = [of_host.get(device) for device in {rank.device for rank in snapshot.ranks}]
    tensor = [gpu.tensor_active_ratio for gpu in gpus if gpu is not None and gpu.tensor_active_ratio is not None]
    memory = [gpu.memory_active_ratio for gpu in gpus if gpu is not None and gpu.memory_active_ratio is not None]
    if not tensor or len(tensor) < len(gpus):
        return None
    return ActivitySample(sum(tensor) / len(gpus), sum(memory) / len(gpus) if len(memory) == len(gpus) else None)


@dataclass
class RecentActivity:
    """The last minute of training of one launch; what came before is in the account of the job."""

    training: deque[ActivitySample] = field(default_factory=lambda: deque(maxlen=_RECENT_SAMPLES))
    sampled_at: float | None = None  # unix time of the hub; None: the activity was unknown
    due: float = 0.0

    def add(self, snapshot: Snapshot, account: Account, stalled: bool) -> None:
        """Take a sample if one is due. `stalled`: the job has an open finding of a stall."""
        if not all(rank.alive for rank in snapshot.ranks) or all(rank.activity == "done" for rank in snapshot.ranks):
            self.sampled_at = None  # others may use its GPUs now
            return
        if snapshot.time < self.due:
            return
        self.due = snapshot.time + SAMPLE_SECONDS
        sample = activity_of(snapshot)
        before, self.sampled_at = self.sampled_at, None if sample is None else snapshot.time
        if sample is None:
            self.training.clear()
            return
        if before is not None:
            account.add_tensor_time(sample.tensor_ratio, min(snapshot.time - before, 2 * SAMPLE_SECONDS))
        if not stalled and all(rank.activity == "train" for rank in snapshot.ranks):
            self.training.append(sample)

    def activity(self, account: Account) -> GpuActivity | None:
        """Return the means over the last minute of training, and over all launches; None if unknown now."""
        if self.sampled_at is None or not self.training:
            return None
        memory = [sample.memory_ratio for sample in self.training if sample.memory_ratio is not None]
        number = len(self.training)
        return GpuActivity(
            sum(sample.tensor_ratio for sample in self.training) / number,
            account.tensor_ratio,
            sum(memory) / number if len(memory) == number else None,
        )
