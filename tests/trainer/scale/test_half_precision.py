"""Tests of weights in half precision: updates are rounded at random, without bias, and equally under every plan."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from tests.trainer.build import random_bags
from trainer.errors import ConfigError
from trainer.kernel import Bags, TorchKernel, sums
from trainer.optimizers import OptimizerConfig
from trainer.scale.half_precision import HalfPrecision, add_bits
from trainer.scale.tier.kernel import TieredKernel
from trainer.sharding import Merge, Shard

CPU = torch.device("cpu")
ROWS, DIM, RATE = 50, 8, 0.05
TABLE = Shard(3, 0, 0, ROWS, DIM)
DISTANCE = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}  # of two numbers between 1 and 2
SGD = OptimizerConfig(embedding="sgd")
CACHE_BYTES = 1500  # less than half of the rows


def weights(*shards: Shard, seed: int = 1, dtype: torch.dtype = torch.bfloat16) -> HalfPrecision:
    """Return the rounding of the weights of these shards."""
    return HalfPrecision(dtype, torch.float32, seed, shards, CPU)


def rounded(
    values: Tensor, changes: Tensor, seed: int = 1, step: int = 1, dtype: torch.dtype = torch.bfloat16
) -> Tensor:
    """Return what a weight (rows, D) becomes by these changes."""
    weight, rows = values.to(dtype), torch.arange(len(values))
    shard = Shard(0, 0, 0, len(values), values.shape[1])
    weights(shard, seed=seed, dtype=dtype).add(weight, rows, changes.clone(), step, rows)
    return weight


def test_draw_of_a_weight_is_the_same_under_every_plan() -> None:
    rows = torch.arange(ROWS)
    whole = weights(TABLE).draws(rows, step=7)
    halves = [replace(TABLE, num_rows=20), replace(TABLE, first_row=20, num_rows=30)]
    other = Shard(5, 0, 0, 9, DIM)
    second = weights(other, halves[1]).draws(torch.arange(9, 39), 7)  # behind another table
    columns = replace(TABLE, first_column=2, num_columns=4, merge=Merge.COLUMNS)
    assert torch.equal(weights(halves[0]).draws(torch.arange(20), 7), whole[:20])
    assert torch.equal(second, whole[20:])
    assert torch.equal(weights(columns).draws(rows, 7), whole[:, 2:6])
    some = torch.tensor([3, 40, 41])
    assert torch.equal(weights(TABLE).draws(some, 7), whole[some])


def test_draws_differ_by_seed_step_table_row_and_column() -> None:
    rows = torch.arange(ROWS)
    all_draws = {
        (seed, step, table): weights(replace(TABLE, table=table), seed=seed).draws(rows, step)
        for seed, step, table in product((1, 2), (1, 2), (3, 4))
    }
    flat = torch.stack([*all_draws.values()]).flatten()
    assert flat.min() >= 0
    assert flat.max() < 1 << 16
    equal_by_chance = len(flat) * (len(flat) - 1) / 2 / (1 << 16)  # pairs of equal draws
    assert 0.7 < (len(flat) - len(flat.unique())) / equal_by_chance < 1.3


@pytest.mark.parametrize("share", [0.001, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("dtype", DISTANCE)
def test_rounding_is_unbiased_within_four_sigma_of_a_million_draws(
    dtype: torch.dtype, sign: float, share: float
) -> None:
    distance = DISTANCE[dtype]
    changes = torch.full((2**17, 8), sign * share * distance)
    result = rounded(torch.full((2**17, 8), sign), changes, dtype=dtype).float()
    assert set(result.unique().tolist()) == {sign, sign * (1 + distance)}
    ups = (result != sign).double().mean().item()
    assert abs(ups - share) < 4 * (share * (1 - share) / result.numel()) ** 0.5 + 2**-13  # a step of the draws


@pytest.mark.parametrize("along", [0, 1])
def test_neighbours_are_rounded_independently(along: int) -> None:
    ups = (rounded(torch.ones(4096, 64), torch.full((4096, 64), 2.0**-8)).float() != 1).double() - 0.5
    together = ups.narrow(along, 0, ups.shape[along] - 1) * ups.narrow(along, 1, ups.shape[along] - 1) * 4
    assert abs(together.mean().item()) < 4 / together.numel() ** 0.5


@pytest.mark.parametrize("dtype", DISTANCE)
def test_numbers_of_the_type_stay_also_if_not_finite(dtype: torch.dtype) -> None:
    numbers = torch.tensor([[0.0, -0.0, 1.5, -3.0, 60_000.0, float("inf"), -float("inf"), 2.0**-24, 1e38]])
    assert torch.equal(rounded(numbers, torch.zeros_like(numbers), dtype=dtype), numbers.to(dtype))
    nan = torch.tensor([[0x7FFFFFFF, 0x7FC00000, -1, 0x7F800001]], dtype=torch.int32).view(torch.float32)  # any bits
    assert rounded(torch.zeros(1, 4), nan, dtype=dtype).isnan().all()


def test_small_numbers_of_float16_are_rounded_to_their_neighbours() -> None:
    values = torch.linspace(-(2.0**-14), 2.0**-14, 999)[:, None].expand(-1, 4).contiguous()
    result = rounded(torch.zeros_like(values), values, dtype=torch.float16).float()
    assert ((result - values).abs() < 2.0**-24).all()


def test_update_is_computed_in_float32_and_rounded_once() -> None:
    """Changes that bfloat16 would lose add up. Computed in bfloat16, the result would not depend on the seed."""
    changes, weight = torch.full((64, 8), 2.0**-12), torch.ones(64, 8)
    by_seed = [weight, weight]
    for step in range(256):
        by_seed = [rounded(numbers.float(), changes, seed, step) for seed, numbers in enumerate(by_seed)]
    assert not torch.equal(*by_seed)
    chance = 2.0**-12 / DISTANCE[torch.bfloat16]  # of a weight to be rounded up in a step
    sigma = DISTANCE[torch.bfloat16] * (256 * chance * (1 - chance) / 512) ** 0.5  # of the mean of 512 weights
    for numbers in by_seed:
        assert numbers.float().mean().item() == pytest.approx(1 + 256 * 2.0**-12, abs=2.1 * sigma)


def part(bags: Bags, first_row: int, num_rows: int) -> Bags:
    """Return the rows of the bags that a shard has, as it numbers them."""
    in_shard = (bags.rows >= first_row) & (bags.rows < first_row + num_rows)
    lengths = torch.zeros_like(bags.lengths).index_add_(0, bags.bag_of_row.long(), in_shard.to(torch.int32))
    return Bags(bags.rows[in_shard] - first_row, lengths)


def test_kernels_of_every_plan_have_equal_weights_after_equal_gradients(tmp_path) -> None:
    initial = torch.linspace(-1, 1, ROWS * DIM).view(ROWS, DIM)
    shards = {
        "whole": [TABLE],
        "by rows": [replace(TABLE, num_rows=20), replace(TABLE, first_row=20, num_rows=30)],
        "by columns": [replace(TABLE, num_columns=3), replace(TABLE, first_column=3, num_columns=5)],
    }
    results = {}
    for plan, of_plan in [*shards.items(), ("on a disk", [TABLE])]:
        result = torch.empty(ROWS, DIM, dtype=torch.bfloat16)
        for shard in of_plan:
            shape, precision = (shard.num_rows, shard.num_columns), weights(shard)
            kernel = TorchKernel(SGD, shape, precision, CPU)
            if plan == "on a disk":
                kernel = TieredKernel(SGD, shape, precision, CPU, CACHE_BYTES, tmp_path)
                assert len(kernel.weight) < ROWS // 2
            rows = slice(shard.first_row, shard.first_row + shard.num_rows)
            columns = slice(shard.first_column, shard.first_column + shard.num_columns)
            kernel.write(0, initial[rows, columns])
            generator = torch.Generator().manual_seed(1)
            for step in range(20):
                bags, gradient = random_bags(generator, ROWS, DIM)
                bags = part(bags, shard.first_row, shard.num_rows)
                kernel.begin(step, RATE)
                kernel.lookup(bags)
                kernel.update(bags, gradient[:, columns].contiguous(), RATE)
            result[rows, columns], _ = kernel.read(0, shard.num_rows)
        results[plan] = result
    assert not torch.equal(results["whole"], initial.to(torch.bfloat16))
    for result in results.values():
        assert torch.equal(result, results["whole"])


@pytest.mark.parametrize("num_bags", [0, 1, 3000])
def test_sums_are_computed_in_float32_and_rounded_once(num_bags: int) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(ROWS, DIM, generator=generator).to(torch.bfloat16)
    lengths = torch.randint(0, 9, (num_bags,), generator=generator, dtype=torch.int32)
    bags = Bags(torch.randint(0, ROWS, (int(lengths.sum()),), generator=generator).to(torch.int32), lengths)
    result = weights(TABLE).sums(weight, bags)
    assert result.dtype == torch.float32
    exact = sums(weight.float(), bags.rows, bags.offsets)
    nearest = exact.to(torch.bfloat16).float()  # torch and FBGEMM round a number in the middle differently
    assert torch.equal((result - exact).abs(), (nearest - exact).abs())


def test_rows_that_occur_again_without_a_gradient_do_not_lose_the_update() -> None:
    """On a GPU rows are not counted, so the merged rows end with repeated rows that have no gradient."""
    weight = torch.tensor([[1.0], [2.0]]).to(torch.bfloat16)
    slots = torch.tensor([0, 1, 0, 0])
    old = weight[slots]
    new = old.clone()
    new[0] = -7.25
    add_bits(weight, slots, old, new)
    assert weight.flatten().tolist() == [-7.25, 2.0]


def test_rows_take_half_of_the_memory_in_the_plan_and_in_the_tables(small_run) -> None:
    large = {"embedding": {"rows": [4000, 700, 900, 10, 250], "dim": 32}, "sharding": {"kind": "table_wise"}}
    full, half = (small_run(large, {"embedding": {"dtype": dtype}}) for dtype in ("", "bfloat16"))
    bytes_of = {
        run: sum(weight.nbytes for _, weight, _ in run.trainer.tables.weights_and_states()) for run in (full, half)
    }
    assert bytes_of[half] * 2 == bytes_of[full]
    for run, size in bytes_of.items():
        assert run.plan.predicted[0].memory.weights == size
    assert half.plan.predicted[0].memory.state == sum(
        state.nbytes for *_, state in half.trainer.tables.weights_and_states()
    )
    works = [run.trainer.work for run in (full, half)]
    of_an_element = [work.memory_traffic(0, 0, 1) - work.memory_traffic(0, 0, 0) for work in works]
    assert of_an_element == [3 * 4, 3 * 2]  # bytes: a lookup reads it, and an update reads and writes it


def test_fbgemm_is_refused(small_config) -> None:
    with pytest.raises(ConfigError, match=r"embedding\.kernel is fbgemm: it must be auto or torch if embedding\.dtype"):
        small_config({"embedding": {"dtype": "bfloat16", "kernel": "fbgemm"}})
