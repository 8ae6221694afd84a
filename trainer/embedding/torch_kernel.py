"""Lookup and exact update of rows, in plain torch.

Shapes: G bags, N rows looked up, U different ones of them, D columns.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.embedding.bags import Bags
from trainer.optimizers import Rule


class TorchKernel:
    """A weight of any number of rows, and one number a row of optimizer's state."""

    def __init__(self, num_rows: int, dim: int, dtype: torch.dtype, device: torch.device, rule: Rule, epsilon: float):
        self.weight = torch.empty(num_rows, dim, dtype=dtype, device=device)
        self.state = torch.zeros(num_rows, dtype=dtype, device=device)
        self._rule, self._epsilon = rule, epsilon

    def lookup(self, bags: Bags) -> Tensor:
        """(G, D): the sum of the rows of each bag, 0 for an empty one."""
        return F.embedding_bag(bags.rows, self.weight, bags.offsets, mode="sum", include_last_offset=True)

    def update(self, bags: Bags, gradient: Tensor, learning_rate: float) -> None:
        """One update of each row, however often it was looked up; `gradient` (G, D) is that of the sums.

        Every row of a bag has the gradient of its sum, so merging those of one row is a lookup again: the bags it was
        in, summed up, in the order of the global batch whatever the number of ranks.
        """
        rows, order = bags.rows.sort(stable=True)
        touched, times = torch.unique_consecutive(rows, return_counts=True)
        ends = times.cumsum(0).to(rows.dtype)
        begins = torch.cat([ends.new_zeros(1), ends])
        merged = F.embedding_bag(bags.bag_of_row[order], gradient, begins, mode="sum", include_last_offset=True)
        self._rule(self.weight, self.state, touched, merged, learning_rate, self._epsilon)
