"""The mean squares of the rows' gradients over all columns of a table whose columns several ranks hold.

Row-wise AdaGrad has one number of state for each row. The ranks of a table look up the same rows in the same order, so
each sends the sum of the squares of its columns to the others: one number for each row. All add them up in the order of
the ranks, and have equal states to the last bit.

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

    def __init__(
        self,
        shards: Sequence[Shard],
        dims: Sequence[int],
        world: World,
        dtype: torch.dtype,
    ) -> None:
        """`shards` are the shards of all ranks, `dims` the columns of each table."""
        self._nothing = torch.empty(0, dtype=dtype, device=world.device)
        divided = [shard for shard in shards if shard.merge is Merge.COLUMNS]
        self._dims = [dims[shard.table] for shard in divided if shard.rank == world.rank]
        local = [shard.table for shard in divided if shard.rank == world.rank]
        holders = {(shard.table, shard.rank) for shard in divided}
        # For each rank, the local tables (by their number here) of which it has columns.
        self._common = [
            [number for number, table in enumerate(local) if (table, other) in holders] for other in range(world.size)
        ]

    def send(self, gradients: Sequence[Tensor]) -> MomentExchange:
        """Start to send the squares of the gradients (U, d) of each local table."""
        sums = [squared_norms(gradient) for gradient in gradients]
        return MomentExchange(sums, self._common, self._dims, self._nothing)


class MomentExchange:
    """The sums of squares in flight."""

    def __init__(
        self, sums: Sequence[Tensor], common: Sequence[Sequence[int]], dims: Sequence[int], nothing: Tensor
    ) -> None:
        self._sizes = [[len(sums[number]) for number in numbers] for numbers in common]
        self._common, self._dims = common, dims
        by_rank = [sum(sizes) for sizes in self._sizes]
        pieces = [sums[number] for numbers in common for number in numbers]
        self._exchange = AllToAll(torch.cat(pieces) if pieces else nothing, by_rank, by_rank)

    def wait(self) -> list[Tensor]:
        """Wait for the squares of all ranks and return the mean squares (U,) of each local table."""
        pieces = self._exchange.wait().split([size for sizes in self._sizes for size in sizes])
        totals: dict[int, Tensor] = {}
        for number, piece in zip([n for numbers in self._common for n in numbers], pieces, strict=True):
            totals[number] = totals[number] + piece if number in totals else piece
        return [totals[number] / dim for number, dim in enumerate(self._dims)]
