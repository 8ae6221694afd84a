"""The samples of one rank in one step.

The global batch of a step does not depend on the number of ranks; each rank takes its slice of it. This makes a run
with R ranks comparable, to the last digits, with a run of one rank.
"""

from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from trainer.errors import DataError


@dataclass(frozen=True)
class Batch:
    """B samples. The sparse part is jagged: one bag of ids for each of F features and each sample, N ids in total."""

    dense: Tensor  # (B, dense features) float32
    ids: Tensor  # (N,) int64, by feature, then by sample; every id is a row number of its feature's table
    lengths: Tensor  # (F, B) int64, ids in each bag; a missing value is an empty bag
    labels: Tensor  # (B,) float32, 0 or 1
    fault: DataError | None = None  # why the samples cannot be used; then the batch has zeros and no ids

    def to(self, device: torch.device) -> "Batch":
        """Return the batch with dense features and labels on this device.

        Ids and lengths stay on the CPU, where they are routed: reading their numbers back would stop a GPU.
        """
        return replace(self, dense=to_device(self.dense, device), labels=to_device(self.labels, device))


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on this device. A GPU copies from pinned memory, so that nothing waits for the copy."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


@dataclass(frozen=True)
class StepBatch:
    """The global batch of one step, of which this rank has read its share."""

    step: int
    global_batch: int  # its samples over all ranks
    batch: Batch  # this rank's share


@dataclass(frozen=True)
class Share:
    """The slice of a global batch that one rank takes: samples `start` to `start + size`."""

    start: int
    size: int


@cache  # called several times in each step; a run has one or two sizes of batches
def shares(global_batch: int, ranks: int) -> tuple[Share, ...]:
    """Return the slices of all ranks. If they cannot be equal, the first ranks have one sample more.

    With fewer samples than ranks, some slices are empty. Their ranks still take part in the step.
    """
    size, remainder = divmod(global_batch, ranks)
    return tuple(Share(rank * size + min(rank, remainder), size + (rank < remainder)) for rank in range(ranks))
