"""The activity of the GPUs of a job, as the GPUs measure it themselves. Pure.

The activity of the tensor cores and the memory needs neither operations nor peaks. It is not the job's share of the
peak in operations, because tensor cores at a low clock, or on padded data, are as busy. If another process uses a GPU,
the activity includes the work of that process.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from zmon.job.time_account import Account
from zmon.job.utilization import known_sum
from zmon.schema.job import GpuActivity
from zmon.schema.job_snapshot import Snapshot

SAMPLE_SECONDS = 5.0  # an agent reads a GPU every second; means over a minute need fewer samples
_RECENT_SAMPLES = 12  # one minute of samples


@dataclass(frozen=True, slots=True)
class ActivitySample:
    """The mean activity of all GPUs of a job, over about a second."""

    tensor_ratio: float
    memory_ratio: float | None


def activity_of(snapshot: Snapshot) -> ActivitySample | None:
    """Return the activity of a job's GPUs now; None if the activity of a GPU is unknown."""
    if snapshot.num_missing or snapshot.unwatched:
        return None
    gpu_by_uuid = {gpu.uuid: gpu for window in snapshot.hardware for gpu in window.now.gpus or ()}
    gpus = [gpu_by_uuid.get(device) for device in {rank.device for rank in snapshot.ranks}]
    tensor = known_sum([gpu.tensor_active_ratio if gpu else None for gpu in gpus])
    if tensor is None or not gpus:
        return None
    memory = known_sum([gpu.memory_active_ratio if gpu else None for gpu in gpus])
    return ActivitySample(tensor / len(gpus), None if memory is None else memory / len(gpus))


@dataclass
class RecentActivity:
    """The last minute of training of one launch; what came before is in the account of the job."""

    training: deque[ActivitySample] = field(default_factory=lambda: deque(maxlen=_RECENT_SAMPLES))
    sampled_at: float | None = None  # unix time of the hub; None: the activity was unknown
    due: float = 0.0  # unix time of the hub at which the next sample is taken

    def add(self, snapshot: Snapshot, account: Account, stalled: bool) -> None:
        """Take a sample if one is due. `stalled`: the job has an open finding of a stall."""
        if not all(rank.alive for rank in snapshot.ranks) or all(rank.activity == "done" for rank in snapshot.ranks):
            self.sampled_at = None  # another job may use its GPUs now
            return
        if snapshot.time < self.due:
            return
        self.due = snapshot.time + SAMPLE_SECONDS
        sample = activity_of(snapshot)
        before = self.sampled_at
        self.sampled_at = None if sample is None else snapshot.time
        if sample is None:
            self.training.clear()
            return
        if before is not None:
            account.add_tensor_time(sample.tensor_ratio, min(snapshot.time - before, 2 * SAMPLE_SECONDS))
        if not stalled and all(rank.activity == "train" for rank in snapshot.ranks):
            self.training.append(sample)

    def move_times(self, seconds: float) -> None:
        """Move the times along with the hub's clock, which was set by these seconds."""
        self.due += seconds
        self.sampled_at = None if self.sampled_at is None else self.sampled_at + seconds

    def activity(self, account: Account) -> GpuActivity | None:
        """Return the means over the last minute of training, and over all launches; None if unknown now."""
        if self.sampled_at is None or not self.training:
            return None
        num_samples = len(self.training)
        memory = known_sum([sample.memory_ratio for sample in self.training])
        return GpuActivity(
            tensor_ratio=sum(sample.tensor_ratio for sample in self.training) / num_samples,
            tensor_wall_ratio=account.tensor_ratio,
            memory_ratio=None if memory is None else memory / num_samples,
        )
