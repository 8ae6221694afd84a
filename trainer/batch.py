"""What one rank trains on in one step, and what a source of it must offer.

The global batch of a step is the same whatever the number of ranks; each rank takes its slice of it. That is what
makes a run with R ranks comparable, to the last digits, with a run of one.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """B samples. The sparse part is jagged: a bag of ids for each of F features and sample, N ids in all."""

    dense: Tensor  # (B, dense features) float32
    ids: Tensor  # (N,) int64, by feature, then by sample; every id is a row of its feature's table
    lengths: Tensor  # (F, B) int64, ids in each bag; an empty bag is a missing value
    labels: Tensor  # (B,) float32, 0 or 1

    def to(self, device: torch.device) -> "Batch":
        """The same where it is computed on."""
        moved = (tensor.to(device, non_blocking=True) for tensor in (self.dense, self.ids, self.lengths, self.labels))
        return Batch(*moved)


class Source(Protocol):
    """Where samples come from: a pure function of its arguments, so ranks need not talk to agree."""

    num_samples: int | None  # None: there is no end to them

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Samples `start` to `start + size` of the global batch of this step; `size` may be 0."""
        ...

    def held_out(self) -> "Source":
        """Samples that are never trained on, to evaluate with."""
        ...


@dataclass(frozen=True)
class Share:
    """What a rank takes of a global batch: samples `start` to `start + size`."""

    start: int
    size: int


def shares(global_batch: int, ranks: int) -> tuple[Share, ...]:
    """The slices of all ranks, by rank: as even as can be, the first ones larger by a sample where it does not divide.

    A last batch smaller than the number of ranks leaves some with nothing; they take part all the same.
    """
    each, more = divmod(global_batch, ranks)
    return tuple(Share(rank * each + min(rank, more), each + (rank < more)) for rank in range(ranks))
