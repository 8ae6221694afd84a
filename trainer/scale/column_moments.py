"""The mean squares of the rows' gradients over all columns of a table whose columns several ranks hold.

Row-wise AdaGrad has one number of state for each row. The ranks of a table look up the same rows in the same order. So
every rank sends the sum of the squares of its columns to the other ranks: one number for each row. All ranks add up the
sums in the order of the ranks, and their states are equal to the last bit.

Shapes: U rows touched, d columns of this rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.all_to_all import AllToAll
from trainer.optimizers import squared_norms
from trainer.sharding import Merge, Shard
from trainer.world import World


class ColumnMoments:
    """The ranks that hold the columns of each table. All ranks call `send` once in each step."""

    def __init__(self, shards: Sequence[Shard], dims: Sequence[int], world: World, dtype: torch.dtype) -> None:
        """`shards` are the shards of all ranks, `dims` has the columns of each table."""
        self._no_sums = torch.empty(0, dtype=dtype, device=world.device)
        column_shards = [shard for shard in shards if shard.merge is Merge.COLUMNS]
        local_tables = [shard.table for shard in column_shards if shard.rank == world.rank]
        self._dims = [dims[table] for table in local_tables]
        holders = {(shard.table, shard.rank) for shard in column_shards}
        # For each rank, the indices of the local tables of which that rank has columns too
        self._shared_with = [
            [index for index, table in enumerate(local_tables) if (table, rank) in holders]
            for rank in range(world.size)
        ]

    def send(self, gradients: Sequence[Tensor]) -> MomentExchange:
        """Start to send the squares of the gradients (U, d) of each local table."""
        sums = [squared_norms(gradient) for gradient in gradients]
        return MomentExchange(sums, self._shared_with, self._dims, self._no_sums)


class MomentExchange:
    """The sums of squares in flight."""

    def __init__(
        self, sums: Sequence[Tensor], shared_with: Sequence[Sequence[int]], dims: Sequence[int], no_sums: Tensor
    ) -> None:
        """`shared_with` has, for each rank, the indices of the tables whose sums are sent to it and come from it."""
        self._dims = dims
        self._tables = [table for tables in shared_with for table in tables]  # in the order in which sums travel
        self._sizes = [len(sums[table]) for table in self._tables]
        sizes_by_rank = [sum(len(sums[table]) for table in tables) for tables in shared_with]
        pieces = [sums[table] for table in self._tables]
        self._exchange = AllToAll(torch.cat(pieces) if pieces else no_sums, sizes_by_rank, sizes_by_rank)

    def wait(self) -> list[Tensor]:
        """Wait for the squares of all ranks and return the mean squares (U,) of each local table."""
        pieces = self._exchange.wait().split(self._sizes)
        totals: dict[int, Tensor] = {}
        for table, piece in zip(self._tables, pieces, strict=True):
            totals[table] = totals[table] + piece if table in totals else piece
        return [totals[table] / dim for table, dim in enumerate(self._dims)]
