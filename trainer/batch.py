"""The samples of one rank in one step, and the interface of their source.

The global batch of a step does not depend on the number of ranks; each rank takes its slice of it. This makes a run
with R ranks comparable, to the last digits, with a run of one rank.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """B samples. The sparse part is jagged: one bag of ids for each of F features and each sample, N ids in total."""

    dense: Tensor  # (B, dense features) float32
    ids: Tensor  # (N,) int64, by feature, then by sample; every id is a row number of its feature's table
    lengths: Tensor  # (F, B) int64, ids in each bag; a missing value is an empty bag
    labels: Tensor  # (B,) float32, 0 or 1

    def to(self, device: torch.device) -> "Batch":
        """Return the batch with its tensors on this device."""
        tensors = (tensor.to(device, non_blocking=True) for tensor in (self.dense, self.ids, self.lengths, self.labels))
        return Batch(*tensors)


class Source(Protocol):
    """A source of samples. It is a pure function of its arguments, so that ranks agree without communication."""

    num_samples: int | None  # None: the samples have no end

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Return samples `start` to `start + size` of the global batch of this step; `size` may be 0."""
        ...

    def held_out(self) -> "Source":
        """Return the source of the evaluation samples, which are never trained on."""
        ...


@dataclass(frozen=True)
class Share:
    """The slice of a global batch that one rank takes: samples `start` to `start + size`."""

    start: int
    size: int


def shares(global_batch: int, ranks: int) -> tuple[Share, ...]:
    """Return the slices of all ranks. If they cannot be equal, the first ranks have one sample more.

    If the last batch has fewer samples than there are ranks, some slices are empty. Their ranks still take part in the
    step.
    """
    size, remainder = divmod(global_batch, ranks)
    return tuple(Share(rank * size + min(rank, remainder), size + (rank < remainder)) for rank in range(ranks))
