"""What is looked up in one go: bags of rows, one behind the other."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Bags:
    """G bags of N rows in all; a bag may be empty."""

    rows: Tensor  # (N,) of the weight they are looked up in
    lengths: Tensor  # (G,) rows in each bag

    @cached_property
    def offsets(self) -> Tensor:
        """(G + 1,) where each bag begins, and where the last one ends."""
        offsets = self.rows.new_zeros(len(self.lengths) + 1)
        torch.cumsum(self.lengths, 0, out=offsets[1:])
        return offsets

    @cached_property
    def bag_of_row(self) -> Tensor:
        """(N,) the bag that each row is in."""
        bags = torch.arange(len(self.lengths), dtype=self.rows.dtype, device=self.rows.device)
        return bags.repeat_interleave(self.lengths, output_size=len(self.rows))
