"""The input of a lookup: bags of rows, concatenated."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Bags:
    """G bags with N rows in total. A bag may be empty."""

    rows: Tensor  # (N,) row numbers of the weight
    lengths: Tensor  # (G,) rows in each bag

    def moved(self, begins: Tensor) -> "Bags":
        """Return the bags with a number (G,) added to all rows of each bag, in 64 bits."""
        shifts = begins.repeat_interleave(self.lengths, output_size=len(self.rows))
        return Bags(self.rows + shifts, self.lengths)

    @cached_property
    def offsets(self) -> Tensor:
        """The begin of each bag and the end of the last one (G + 1,)."""
        offsets = self.rows.new_zeros(len(self.lengths) + 1)
        torch.cumsum(self.lengths, 0, out=offsets[1:])
        return offsets

    @cached_property
    def bag_of_row(self) -> Tensor:
        """The bag of each row (N,)."""
        bags = torch.arange(len(self.lengths), dtype=self.rows.dtype, device=self.rows.device)
        return bags.repeat_interleave(self.lengths, output_size=len(self.rows))
