"""What one rank trains on in one step, and what a source of it must offer.

The global batch of a step is the same whatever the number of ranks; rank r takes its r-th slice. That is
what makes a run with R ranks comparable, to the last digits, with a run of one.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """B samples. The sparse part is jagged: a bag of ids for each of F features and sample, N ids in all."""

    dense: Tensor  # (B, dense features) float32
    ids: Tensor  # (N,) int64, by feature, then by sample; every id is a row of its feature's table
    lengths: Tensor  # (F, B) int64, ids in each bag; an empty bag is a missing value
    labels: Tensor  # (B,) float32, 0 or 1


class Source(Protocol):
    """Where batches come from: a pure function of its arguments, so ranks need not talk to agree."""

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Samples `start` to `start + size` of the global batch of this step."""
        ...
