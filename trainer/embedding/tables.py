"""The table shards of this rank: looked up for the samples of all ranks, updated by the gradients of all ranks.

The shards of a group are concatenated in one weight, so lookup and update are one call each for any number of tables
(as in FBGEMM's table-batched embedding). Most plans have one group.

Shapes: G bags of a group, D columns.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from trainer.embedding.bags import Bags
from trainer.embedding.column_moments import ColumnMoments
from trainer.embedding.config import EmbeddingConfig
from trainer.embedding.initial import fill
from trainer.embedding.kernel import Kernel, open_kernel, open_torch_kernel
from trainer.embedding.torch_kernel import TorchKernel
from trainer.optimizers import OptimizerConfig
from trainer.sharding import Shard
from trainer.sharding.groups import Group
from trainer.sharding.kind import Merge


class ShardedTables:
    """The table shards of one rank, in groups."""

    def __init__(
        self,
        config: EmbeddingConfig,
        optimizer: OptimizerConfig,
        groups: Sequence[Group],
        moments: ColumnMoments | None,
        seed: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """`moments` are to be shared by the ranks that have columns of one table; None: no table needs it."""
        self._groups, self._moments = groups, moments
        self._num_rows = [[shard.num_rows for shard in group.shards] for group in groups]
        self._kernels: list[Kernel] = []
        self._sharing: list[tuple[int, TorchKernel]] = []  # groups whose moments are shared; FBGEMM cannot do this
        for number, group in enumerate(groups):
            shape = sum(self._num_rows[number]), group.width
            if moments is not None and group.merge is Merge.COLUMNS:
                kernel: Kernel = open_torch_kernel(optimizer, shape, dtype, device)
                assert isinstance(kernel, TorchKernel)
                self._sharing.append((number, kernel))
            else:
                kernel = open_kernel(config, optimizer, shape, dtype, device)
            self._kernels.append(kernel)
        for shard, weight, _ in self.parts():
            fill(weight, seed, shard, config.rows[shard.table], config.dims[shard.table])

    def set_rate(self, learning_rate: float) -> None:
        """Set the learning rate of the update that follows the next lookup."""
        for kernel in self._kernels:
            kernel.set_rate(learning_rate)

    def lookup(self, bags: Sequence[Bags]) -> list[Tensor]:
        """Return the sum of the rows of each bag (G, D), by group."""
        return [kernel.lookup(of_group) for kernel, of_group in zip(self._kernels, bags, strict=True)]

    def update(self, bags: Sequence[Bags], gradients: Sequence[Tensor], learning_rate: float) -> None:
        """Update each row of the last lookup once and exactly, given the gradients (G, D) of the sums, by group."""
        merged = [kernel.merge(bags[number], gradients[number]) for number, kernel in self._sharing]
        exchange = self._moments.send([gradient for _, gradient in merged]) if self._moments is not None else None
        sharing = {number for number, _ in self._sharing}
        for number, kernel in enumerate(self._kernels):
            if number not in sharing:
                kernel.update(bags[number], gradients[number], learning_rate)
        if exchange is not None:
            for (_, sharer), of_table, mean_squares in zip(self._sharing, merged, exchange.wait(), strict=True):
                sharer.apply(of_table, learning_rate, mean_squares)

    def parts(self) -> Iterator[tuple[Shard, Tensor, Tensor]]:
        """Return each shard with views of its weight (rows, D) and its optimizer state (rows,)."""
        for group, kernel, num_rows in zip(self._groups, self._kernels, self._num_rows, strict=True):
            yield from zip(group.shards, kernel.weight.split(num_rows), kernel.state.split(num_rows), strict=True)
