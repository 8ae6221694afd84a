"""Lookup and exact update of rows, in plain torch.

Shapes: G bags, N rows looked up, U different ones of them, D columns.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.embedding.bags import Bags
from trainer.optimizers import Rule

# Bytes of gradients merged at a time. A processor keeps so many in its cache, and asks the kernel for no new pages:
# half the time of an update of many rows. On a GPU each piece is a dozen launches, and only memory limits it.
_PIECE_BYTES = {"cpu": 1 << 20, "cuda": 256 << 20}


class TorchKernel:
    """A weight of any number of rows, and one number a row of optimizer's state."""

    def __init__(self, num_rows: int, dim: int, dtype: torch.dtype, device: torch.device, rule: Rule, epsilon: float):
        self.weight = torch.empty(num_rows, dim, dtype=dtype, device=device)
        self.state = torch.zeros(num_rows, dtype=dtype, device=device)
        self._rule, self._epsilon = rule, epsilon
        self._piece = max(1, _PIECE_BYTES[device.type] // (dim * dtype.itemsize))  # rows

    def lookup(self, bags: Bags) -> Tensor:
        """(G, D): the sum of the rows of each bag, 0 for an empty one."""
        return _sums(self.weight, bags.rows, bags.offsets)

    def update(self, bags: Bags, gradient: Tensor, learning_rate: float) -> None:
        """One update of each row, however often it was looked up; `gradient` (G, D) is that of the sums.

        Every row of a bag has the gradient of its sum, so merging those of one row is a lookup again: the bags it was
        in, summed up, in the order of the global batch whatever the number of ranks.
        """
        rows, order = bags.rows.sort(stable=True)
        touched, times = torch.unique_consecutive(rows, return_counts=True)
        of_rows = bags.bag_of_row.index_select(
            0, order
        )  # (N,) the bags of the first row touched, then those of the second, …
        begins = Bags(rows, times).offsets  # (U + 1,)
        for first in range(0, len(touched), self._piece):
            piece = slice(first, first + self._piece)
            ends = begins[first : first + self._piece + 1]
            merged = _sums(gradient, of_rows[ends[0] : ends[-1]], ends - ends[0])
            self._rule(self.weight, self.state, touched[piece], merged, learning_rate, self._epsilon)


def _sums(of: Tensor, rows: Tensor, offsets: Tensor) -> Tensor:
    """Of the rows of each bag."""
    return F.embedding_bag(rows, of, offsets, mode="sum", include_last_offset=True)
