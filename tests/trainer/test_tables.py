"""Tests of sharded tables: their initial weights, and the kernels that they choose."""

from dataclasses import replace

import torch

from trainer.kernel import TorchKernel
from trainer.optimizers import OptimizerConfig
from trainer.scale.column_moments import ColumnMoments
from trainer.sharding import Merge, Shard, groups_of, in_order
from trainer.tables import EmbeddingConfig, ShardedTables
from trainer.world import World

CPU = torch.device("cpu")


def initial_weights(*shards: Shard) -> torch.Tensor:
    """Return the weights of the rows of all shards."""
    config = EmbeddingConfig(rows=(5, 3, 8), dim=2, kernel="torch")
    (groups,) = groups_of(in_order(shards), 1)
    tables = ShardedTables(config, OptimizerConfig(), groups, None, seed=3, dtype=torch.float64, device=CPU)
    return torch.cat([weight for _, weight, _ in tables.parts()])


def test_initial_weights_do_not_depend_on_the_sharding() -> None:
    first, second, third = (Shard(table, 0, 0, rows, 2) for table, rows in enumerate((5, 3, 8)))
    alone = initial_weights(third)
    assert torch.equal(initial_weights(first, second, third)[8:], alone)
    assert torch.equal(initial_weights(replace(third, first_row=3, num_rows=4)), alone[3:7])
    assert alone.abs().max() <= 8**-0.5  # the bound of a table of 8 rows


def test_torch_computes_on_columns_whose_moments_are_shared() -> None:
    """FBGEMM updates in one call and cannot wait for the squares of other ranks."""
    config, optimizer = EmbeddingConfig(rows=(5, 3), dim=8, kernel="fbgemm"), OptimizerConfig()
    shards = in_order([Shard(0, 0, 0, 5, 8, merge=Merge.COLUMNS), Shard(1, 0, 0, 3, 8)])
    (groups,) = groups_of(shards, 1)
    moments = ColumnMoments(shards, config.dims, World(0, 1), torch.float32)
    sharing, alone = (
        ShardedTables(config, optimizer, groups, shared, seed=3, dtype=torch.float32, device=CPU)._kernels
        for shared in (moments, None)
    )
    assert [type(kernel) is TorchKernel for kernel in sharing] == [True, False]
    assert [type(kernel) is TorchKernel for kernel in alone] == [False, False]
