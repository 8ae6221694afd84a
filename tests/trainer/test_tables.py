"""Tests of sharded and replicated tables: lookups, and updates against a gradient as large as all tables."""

import pytest
import torch

from tests.trainer.build import bags_of
from trainer.kernel import TorchKernel
from trainer.optimizers import OptimizerConfig
from trainer.replicated import ReplicatedTables
from trainer.scale.column_moments import ColumnMoments
from trainer.sharding import Merge, Shard, groups_of, in_order
from trainer.tables import EmbeddingConfig, ShardedTables
from trainer.world import World

CONFIG = EmbeddingConfig(rows=(5, 3, 8), dim=2, kernel="torch")
RATE = 0.1
CPU = torch.device("cpu")


def tables(*shards: Shard, **optimizer) -> ShardedTables:
    """Return tables with these shards on a single rank, in float64."""
    (groups,) = groups_of(in_order(shards), 1)
    return ShardedTables(CONFIG, OptimizerConfig(**optimizer), groups, None, seed=3, dtype=torch.float64, device=CPU)


def whole(*numbers: int) -> list[Shard]:
    """Return a shard with all rows of each of these tables."""
    return [Shard(table, 0, 0, CONFIG.rows[table], 2) for table in numbers]


def weights(sharded: ShardedTables) -> torch.Tensor:
    """Return the rows of all shards."""
    return torch.cat([weight for _, weight, _ in sharded.weights_and_states()])


def states(sharded: ShardedTables) -> torch.Tensor:
    """Return the optimizer's states of the rows of all shards."""
    return torch.cat([state for _, _, state in sharded.weights_and_states()])


def test_initial_weights_do_not_depend_on_the_sharding() -> None:
    together, single, part = tables(*whole(0, 1, 2)), tables(*whole(2)), tables(Shard(2, 0, 3, 4, 2))
    assert torch.equal(weights(together)[8:], weights(single))
    assert torch.equal(weights(single)[3:7], weights(part))
    assert weights(single).abs().max() <= 8**-0.5


def test_lookup_sums_each_bag() -> None:
    sharded = tables(*whole(0, 2))
    weight = weights(sharded)
    expected = [2 * weight[4], torch.zeros(2), weight[12], 2 * weight[5] + weight[6]]
    assert torch.allclose(sharded.lookup([bags_of([4, 4], [], [12], [5, 6, 5])])[0], torch.stack(expected))


@pytest.mark.parametrize("rule", ["rowwise_adagrad", "adagrad", "sgd"])
def test_update_equals_update_with_dense_gradient(rule) -> None:
    generator = torch.Generator().manual_seed(0)
    sharded = tables(*whole(0, 1, 2), embedding=rule)
    weight, state = weights(sharded).clone(), torch.zeros(16, 2, dtype=torch.float64)
    for _ in range(5):
        rows = [torch.randint(0, 16, (int(n),), generator=generator).tolist() for n in torch.arange(40) % 4]
        gradient = torch.randn(40, 2, generator=generator, dtype=torch.float64)
        dense = torch.zeros_like(weight)  # the naive approach: a gradient as large as all tables
        for bag, bag_gradient in zip(rows, gradient, strict=True):
            for row in bag:
                dense[row] += bag_gradient
        state += dense.square() if rule == "adagrad" else dense.square().mean(dim=1, keepdim=True)
        weight -= RATE * (dense if rule == "sgd" else dense / (state.sqrt() + 1e-8))
        sharded.update([bags_of(*rows)], [gradient], RATE)
    assert torch.allclose(weights(sharded), weight, rtol=1e-13, atol=1e-15)
    if rule == "rowwise_adagrad":
        assert torch.allclose(states(sharded), state[:, 0], rtol=1e-13, atol=0)
    elif rule == "adagrad":
        assert torch.allclose(states(sharded), state, rtol=1e-13, atol=0)


def test_replicated_tables_equal_sharded_tables() -> None:
    sharded = tables(*whole(1))
    replicated = ReplicatedTables(CONFIG, OptimizerConfig(), [1], seed=3, dtype=torch.float64, device=CPU)
    rows, gradient = bags_of([0, 2], [2], [], [1]), torch.arange(8, dtype=torch.float64).view(4, 2) - 3
    assert torch.equal(replicated.lookup({2: rows})[2], sharded.lookup([rows])[0])
    table_gradient = torch.full((6,), 7.0, dtype=torch.float64)
    replicated.write_gradient({2: rows}, {2: gradient}, table_gradient)
    replicated.update(table_gradient, RATE)
    sharded.update([rows], [gradient], RATE)
    ((_, weight, _),) = replicated.weights_and_states()
    assert torch.allclose(weight, weights(sharded), rtol=1e-14)


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
