"""The table shards of this rank: looked up for the samples of all ranks, updated by the gradients of all ranks.

All shards are concatenated in one weight, so lookup and update are one call each for any number of tables (as in
FBGEMM's table-batched embedding).
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from trainer.embedding.bags import Bags
from trainer.embedding.config import EmbeddingConfig
from trainer.embedding.initial import fill
from trainer.embedding.kernel import open_kernel
from trainer.optimizers import OptimizerConfig
from trainer.sharding import Shard


class ShardedTables:
    """The table shards of one rank."""

    def __init__(
        self,
        config: EmbeddingConfig,
        optimizer: OptimizerConfig,
        shards: Sequence[Shard],
        seed: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.shards = tuple(shards)
        self._num_rows = [shard.num_rows for shard in shards]
        self._kernel = open_kernel(config, optimizer, sum(self._num_rows), dtype, device)
        for shard, weight, _ in self.parts():
            fill(weight, seed, shard.table, config.rows[shard.table], shard.first_row)

    def lookup(self, bags: Bags, learning_rate: float | None = None) -> Tensor:
        """Return the sum of the rows of each bag (G, D). `learning_rate` is that of their update, if one follows."""
        return self._kernel.lookup(bags, learning_rate)

    def update(self, bags: Bags, gradient: Tensor, learning_rate: float) -> None:
        """Update each row of the last lookup once and exactly, given the gradient (G, D) of the sums."""
        self._kernel.update(bags, gradient, learning_rate)

    def parts(self) -> Iterator[tuple[Shard, Tensor, Tensor]]:
        """Return each shard with views of its weight (rows, D) and its optimizer state (rows,)."""
        weights, states = self._kernel.weight.split(self._num_rows), self._kernel.state.split(self._num_rows)
        return zip(self.shards, weights, states, strict=True)
