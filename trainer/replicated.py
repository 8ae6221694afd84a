"""The replicated tables: every rank has a copy, looks up its own samples and applies the all-reduced gradients.

Such a table has few rows. Its gradient is as large as the table and is all-reduced together with the gradients of the
dense layers. A row that no rank looked up has a gradient of zero, which changes nothing.

Shapes: E replicated tables of D columns, B samples of this rank.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

import torch
from torch import Tensor

from trainer.batch import Batch, to_device
from trainer.kernel import Bags, sums
from trainer.optimizers import RULES, OptimizerConfig, RowUpdate
from trainer.routing import INT32_ROWS
from trainer.sharding import Shard
from trainer.tables import EmbeddingConfig, initial_rows


class ReplicatedTables:
    """The replicated tables. All tables with the same number of columns are in one weight."""

    def __init__(
        self,
        config: EmbeddingConfig,
        optimizer: OptimizerConfig,
        tables: Sequence[int],
        seed: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        rows_by_width: dict[int, dict[int, int]] = {}
        for table in tables:
            rows_by_width.setdefault(config.dims[table], {})[table] = config.rows[table]
        self._by_width = {
            width: _TablesOfWidth(width, rows, optimizer, dtype, device) for width, rows in rows_by_width.items()
        }
        self._sizes = [same_width.weight.numel() for same_width in self._by_width.values()]
        for table, weight, _state in self.weights_and_states():
            num_rows, width = weight.shape
            whole = Shard(table, rank=0, first_row=0, num_rows=num_rows, num_columns=width)
            weight.copy_(torch.cat(list(initial_rows(seed, whole, num_rows, width))))

    @property
    def num_weights(self) -> int:
        """The number of all weights."""
        return sum(self._sizes)

    def bags(self, batch: Batch) -> dict[int, Bags]:
        """Return the bags of these samples, by number of columns, then by table, then by sample."""
        ids = batch.ids.split(batch.lengths.sum(dim=1).tolist()) if self._by_width else ()
        return {width: same_width.bags(batch, ids) for width, same_width in self._by_width.items()}

    def lookup(self, bags: dict[int, Bags]) -> dict[int, Tensor]:
        """Return the sum of the rows of each bag (E · B, D), by number of columns."""
        return {width: same_width.lookup(bags[width]) for width, same_width in self._by_width.items()}

    def write_gradient(self, bags: dict[int, Bags], bag_gradients: dict[int, Tensor], gradient: Tensor) -> None:
        """Write the gradient of all weights into `gradient`, given the gradients of the bags' sums (E · B, D)."""
        for (width, same_width), part in zip(self._by_width.items(), gradient.split(self._sizes), strict=True):
            same_width.write_gradient(bags[width], bag_gradients[width], part.view_as(same_width.weight))

    def update(self, gradient: Tensor, learning_rate: float) -> None:
        """Update all rows, given the gradient of all weights for the global batch."""
        for same_width, part in zip(self._by_width.values(), gradient.split(self._sizes), strict=True):
            same_width.update(part.view_as(same_width.weight), learning_rate)

    def weights_and_states(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield each table with views of its weight (rows, D) and its optimizer state (rows, …)."""
        return chain.from_iterable(same_width.weights_and_states() for same_width in self._by_width.values())


class _TablesOfWidth:
    """The replicated tables of D columns."""

    def __init__(
        self, width: int, rows: dict[int, int], optimizer: OptimizerConfig, dtype: torch.dtype, device: torch.device
    ) -> None:
        """`rows` has the number of rows of each table."""
        self._tables = list(rows)
        self._rows = list(rows.values())
        self.weight = torch.empty(sum(self._rows), width, dtype=dtype, device=device)
        self.state = torch.zeros(optimizer.state_shape((sum(self._rows), width)), dtype=dtype, device=device)
        self._rule, self._epsilon = RULES[optimizer.embedding], optimizer.embedding_epsilon

    def bags(self, batch: Batch, ids: Sequence[Tensor]) -> Bags:
        """Return the bags of these samples, given the ids of each table."""
        *first_rows, _ = accumulate(self._rows, initial=0)  # of each table in the weight
        rows = torch.cat([ids[table] + first for table, first in zip(self._tables, first_rows, strict=True)])
        index_type = torch.int32 if sum(self._rows) <= INT32_ROWS else torch.int64
        lengths = batch.lengths[self._tables].flatten().to(torch.int32)
        return Bags(to_device(rows.to(index_type), self.weight.device), to_device(lengths, self.weight.device))

    def lookup(self, bags: Bags) -> Tensor:
        return sums(self.weight, bags.rows, bags.offsets)

    def write_gradient(self, bags: Bags, bag_gradients: Tensor, gradient: Tensor) -> None:
        gradient.zero_().index_add_(0, bags.rows, bag_gradients[bags.bag_of_row])

    def update(self, gradient: Tensor, learning_rate: float) -> None:
        self.weight.add_(self._rule(RowUpdate(self.state, None, gradient), learning_rate, self._epsilon))

    def weights_and_states(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        return zip(self._tables, self.weight.split(self._rows), self.state.split(self._rows), strict=True)
