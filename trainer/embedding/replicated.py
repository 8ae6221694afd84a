"""The replicated tables: every rank has a copy, looks up its own samples and applies the all-reduced gradients.

Such a table has few rows. Its gradient is as large as the table and is all-reduced together with the gradients of the
dense layers. A row that no rank looked up has a gradient of zero, which changes nothing.

Shapes: E replicated tables, B samples of this rank, D columns.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.batch import Batch, to_device
from trainer.embedding.bags import Bags
from trainer.embedding.config import EmbeddingConfig
from trainer.embedding.initial import fill
from trainer.optimizers import RULES, OptimizerConfig
from trainer.routing import INT32_ROWS


class ReplicatedTables:
    """All rows of the replicated tables, in one weight."""

    def __init__(
        self,
        config: EmbeddingConfig,
        optimizer: OptimizerConfig,
        tables: Sequence[int],
        seed: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.tables, self._rows = tuple(tables), [config.rows[table] for table in tables]
        self.weight = torch.empty(sum(self._rows), config.dim, dtype=dtype, device=device)
        self.state = torch.zeros(len(self.weight), dtype=dtype, device=device)
        self._rule, self._epsilon = RULES[optimizer.embedding], optimizer.embedding_epsilon
        for table, weight, _ in self.parts():
            fill(weight, seed, table, config.rows[table])

    def bags(self, batch: Batch) -> Bags:
        """Return the bags of these samples, by table, then by sample."""
        device = self.weight.device
        if not self.tables:
            empty = torch.empty(0, dtype=torch.int32, device=device)
            return Bags(empty, empty)
        ids = batch.ids.split(batch.lengths.sum(dim=1).tolist())
        begins = accumulate(self._rows, initial=0)
        rows = torch.cat([ids[table] + begin for table, begin in zip(self.tables, begins, strict=False)])
        index_type = torch.int32 if sum(self._rows) <= INT32_ROWS else torch.int64
        lengths = batch.lengths[list(self.tables)].flatten().to(torch.int32)
        return Bags(to_device(rows.to(index_type), device), to_device(lengths, device))

    def lookup(self, bags: Bags) -> Tensor:
        """Return the sum of the rows of each bag (E · B, D)."""
        return F.embedding_bag(bags.rows, self.weight, bags.offsets, mode="sum", include_last_offset=True)

    def gradient(self, bags: Bags, gradient: Tensor, out: Tensor) -> None:
        """Write the gradient of all rows into `out` (rows, D), given the gradient of the bags' sums (E · B, D)."""
        if self.tables:
            out.zero_().index_add_(0, bags.rows, gradient[bags.bag_of_row])

    def update(self, gradient: Tensor, learning_rate: float) -> None:
        """Update all rows, given the gradient (rows, D) of the global batch."""
        if self.tables:
            self._rule(self.weight, self.state, None, gradient, learning_rate, self._epsilon)

    def parts(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Return each table with views of its weight (rows, D) and its optimizer state (rows,)."""
        return zip(self.tables, self.weight.split(self._rows), self.state.split(self._rows), strict=True)
