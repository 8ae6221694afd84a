"""Tests of a kernel whose rows are on a disk: to the bit, it computes what the kernel with all rows in memory computes.

Some caches have room for exactly the rows of a batch, some for one row less, and some for less than a single bag.
"""

import time
from itertools import pairwise, zip_longest

import numpy as np
import pytest
import torch

from trainer.errors import ConfigError
from trainer.kernel import Bags, Precision, TorchKernel
from trainer.optimizers import OptimizerConfig
from trainer.scale.half_precision import HalfPrecision
from trainer.scale.tier import many_calls, row_file
from trainer.scale.tier.kernel import TieredKernel
from trainer.scale.tier.row_file import TierError
from trainer.scale.tier.slots import INDEX_BYTES, SLOT_BYTES
from trainer.sharding import Shard

CPU = torch.device("cpu")
ROWS, DIM, RATE, STEPS = 64, 3, 0.1, 20


def memory(num_slots: int, dtype: torch.dtype = torch.float32) -> int:
    """Return the bytes of a cache with this many slots for rows."""
    return num_slots * ((DIM + 1) * dtype.itemsize + SLOT_BYTES) + INDEX_BYTES * ROWS


def kernels(folder, num_slots: int, rule: str, dtype=torch.float32) -> tuple[TorchKernel, TieredKernel]:
    """Return a kernel with all rows in memory and one with this many slots, with equal weights."""
    optimizer = OptimizerConfig(embedding=rule)
    plain = TorchKernel(optimizer, (ROWS, DIM), Precision(dtype), CPU)
    tiered = TieredKernel(optimizer, (ROWS, DIM), Precision(dtype), CPU, memory(num_slots, dtype=dtype), folder)
    weight = torch.linspace(-1, 1, ROWS * DIM, dtype=dtype).view(ROWS, DIM)
    for kernel in (plain, tiered):
        kernel.write(0, weight)
    return plain, tiered


def bags(generator: np.random.Generator, num_distinct: int, num_bags: int = 6, longest: int = 9) -> Bags:
    """Return bags, some of them empty, that look up exactly this many distinct rows."""
    distinct = generator.choice(ROWS, num_distinct, replace=False)
    lengths = generator.integers(0, longest, num_bags)
    lengths[0] += max(0, num_distinct - lengths.sum())
    rows = generator.permutation(np.concatenate([distinct, generator.choice(distinct, lengths.sum() - num_distinct)]))
    return Bags(torch.from_numpy(rows.astype(np.int32)), torch.from_numpy(lengths.astype(np.int32)))


def train(
    kernel: TorchKernel, batches: list[Bags], *, shares_moments: bool = False, looks_ahead: bool = False
) -> list[torch.Tensor]:
    """Look up and update in each step; return the sums of all steps."""
    results = []
    generator = torch.Generator().manual_seed(5)
    for batch, following in zip_longest(batches, batches[1:]):
        sums = kernel.lookup(batch)
        if following and looks_ahead:
            kernel.prefetch(following)
        results.append(sums.clone())
        gradient = torch.randn(sums.shape, generator=generator, dtype=sums.dtype)
        if shares_moments:
            merged = kernel.merge(batch, gradient)
            moments = merged.gradient.square().sum(dim=1) / 7  # as if a row had more columns, on other ranks
            kernel.apply(merged, RATE, moments)
        else:
            kernel.update(batch, gradient, RATE)
    return results


def assert_equal(
    plain: TorchKernel, tiered: TieredKernel, batches: list[Bags], *, shares_moments: bool, looks_ahead: bool = False
) -> None:
    """Train both kernels, and check that their sums, weights and states are equal, bit for bit."""
    sums = [
        train(kernel, batches, shares_moments=shares_moments, looks_ahead=looks_ahead) for kernel in (plain, tiered)
    ]
    for plain_sum, tiered_sum in zip(*sums, strict=True):
        assert torch.equal(plain_sum, tiered_sum)
    weight, state = tiered.read(0, ROWS)
    assert torch.equal(plain.weight, weight)
    assert torch.equal(plain.state, state)


@pytest.mark.parametrize(
    ("rule", "shares_moments", "dtype"),
    [
        ("sgd", False, torch.float64),
        ("rowwise_adagrad", False, torch.float32),
        ("rowwise_adagrad", True, torch.float64),
    ],
)
@pytest.mark.parametrize("looks_ahead", [False, True])
@pytest.mark.parametrize("num_slots", [1, 15, 16, 17, 31, 32, 64])
def test_training_is_bit_equal_to_rows_in_memory(tmp_path, num_slots, looks_ahead, rule, shares_moments, dtype) -> None:
    """Batches have 16 distinct rows: 16 slots are exactly the working set, 15 one less, and 32 that of two batches."""
    generator = np.random.default_rng(num_slots)
    plain, tiered = kernels(tmp_path, num_slots, rule, dtype)
    batches = [bags(generator, 16) for _ in range(STEPS)]
    assert_equal(plain, tiered, batches, shares_moments=shares_moments, looks_ahead=looks_ahead)


@pytest.mark.parametrize("looks_ahead", [False, True])
@pytest.mark.parametrize("num_slots", [2, 3, 4])
def test_row_in_each_of_consecutive_batches_is_never_stale(tmp_path, num_slots, looks_ahead) -> None:
    """Row 7 is in each batch, and all others evict each other."""
    plain, tiered = kernels(tmp_path, num_slots, "rowwise_adagrad")
    length = torch.tensor([2], dtype=torch.int32)
    batches = [
        Bags(torch.tensor([7, other], dtype=torch.int32), length) for other in (1, 2, 3, 4, 1, 2, 3, 4, 5, 1, 6, 2)
    ]
    assert_equal(plain, tiered, batches, shares_moments=False, looks_ahead=looks_ahead)


def test_lookups_without_updates_lock_no_rows(tmp_path) -> None:
    """An evaluation between two steps looks up and does not update."""
    plain, tiered = kernels(tmp_path, 8, "rowwise_adagrad")
    generator = np.random.default_rng(3)
    for _ in range(5):
        for _ in range(10):
            evaluated = bags(generator, 8)
            assert torch.equal(plain.lookup(evaluated), tiered.lookup(evaluated))
        assert_equal(plain, tiered, [bags(generator, 8) for _ in range(3)], shares_moments=False)


def test_evaluation_after_a_prefetch_leaves_the_next_step_right(tmp_path) -> None:
    """The rows of the evaluation may take the slots of rows of the next batch, which are then read again."""
    plain, tiered = kernels(tmp_path, 12, "rowwise_adagrad")
    generator = np.random.default_rng(4)
    batches = [bags(generator, 6) for _ in range(20)]
    for batch, following in pairwise(batches):
        for kernel in (plain, tiered):
            sums = kernel.lookup(batch)
            kernel.prefetch(following)
            kernel.update(batch, torch.ones_like(sums), RATE)
        evaluated = bags(generator, 11)
        assert torch.equal(plain.lookup(evaluated), tiered.lookup(evaluated))
    weight, _ = tiered.read(0, ROWS)
    assert torch.equal(weight, plain.weight)


def test_lookup_after_a_prefetch_finds_its_rows_in_memory(tmp_path) -> None:
    """The rows of two batches fit, so the lookup reads none from the disk, not even those just updated."""
    _, tiered = kernels(tmp_path, 32, "rowwise_adagrad")
    generator = np.random.default_rng(6)
    for batch, following in pairwise(bags(generator, 16) for _ in range(20)):
        sums = tiered.lookup(batch)
        before = tiered.rows_from_disk
        tiered.prefetch(following)
        prefetched = tiered.rows_from_disk
        tiered.update(batch, torch.ones_like(sums), RATE)
        tiered.lookup(following)
        assert before < prefetched == tiered.rows_from_disk
    assert not tiered.is_too_small


def test_cache_of_less_than_two_batches_is_too_small(tmp_path) -> None:
    _, tiered = kernels(tmp_path, 20, "rowwise_adagrad")
    generator = np.random.default_rng(6)
    train(tiered, [bags(generator, 16) for _ in range(2)], looks_ahead=True)
    assert tiered.is_too_small


def test_error_of_a_prefetch_is_raised_by_the_next_lookup(tmp_path, monkeypatch) -> None:
    _, tiered = kernels(tmp_path, 32, "sgd")
    generator = np.random.default_rng(7)
    batches = [bags(generator, 16) for _ in range(2)]
    tiered.lookup(batches[0])

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(row_file, "move", fail)
    tiered.prefetch(batches[1])
    with pytest.raises(TierError, match=r"cannot read rows in .*: Input/output error"):
        tiered.lookup(batches[1])


def test_error_of_a_write_that_nobody_waited_for_is_raised_by_a_later_lookup(tmp_path, monkeypatch) -> None:
    _, tiered = kernels(tmp_path, 16, "sgd")
    generator = np.random.default_rng(8)
    move = row_file.move

    def fail(opcode: int, *rest) -> None:
        if opcode == many_calls.WRITE:
            time.sleep(0.05)
            raise OSError(5, "Input/output error")
        move(opcode, *rest)

    monkeypatch.setattr(row_file, "move", fail)
    with pytest.raises(TierError, match=r"cannot write rows in .*: Input/output error"):
        train(tiered, [bags(generator, 8) for _ in range(10)], looks_ahead=True)


def test_no_bags_and_empty_bags_have_no_rows(tmp_path) -> None:
    plain, tiered = kernels(tmp_path, 2, "sgd")
    nothing = torch.empty(0, dtype=torch.int32)
    for lengths in (nothing, torch.zeros(3, dtype=torch.int32)):
        assert_equal(plain, tiered, [Bags(nothing, lengths)], shares_moments=False)


def test_range_of_rows_is_read_and_written_through_the_cache(tmp_path) -> None:
    plain, tiered = kernels(tmp_path, 8, "rowwise_adagrad")
    batches = [bags(np.random.default_rng(1), 8)]
    assert_equal(plain, tiered, batches, shares_moments=False)
    new = torch.full((10, DIM), 5.0)
    for kernel in (plain, tiered):
        kernel.write(20, new)
    weight, _ = tiered.read(15, 30)
    assert torch.equal(weight, plain.weight[15:45])
    every_row = Bags(torch.arange(8, dtype=torch.int32) + 20, torch.ones(8, dtype=torch.int32))
    assert torch.equal(plain.lookup(every_row), tiered.lookup(every_row))


def test_memory_that_holds_no_row_is_refused(tmp_path) -> None:
    with pytest.raises(
        ConfigError, match=r"embedding\.memory is too small: it has to hold at least \d+ bytes for 64 rows"
    ):
        kernels(tmp_path, 0, "sgd")


def test_nothing_is_left_in_the_folder(tmp_path) -> None:
    _, tiered = kernels(tmp_path, 2, "sgd")
    assert list(tmp_path.iterdir()) == []
    weight, _ = tiered.read(0, 1)
    assert weight.shape == (1, DIM)


@pytest.mark.parametrize("num_slots", [3, 12, 40])
def test_rows_that_came_from_the_disk_are_a_part_of_those_wanted(tmp_path, num_slots: int) -> None:
    """With 3 and 12 slots a batch of 20 rows is larger than the cache, so that the update reads rows again."""
    _, tiered = kernels(tmp_path, num_slots, "sgd")
    generator = np.random.default_rng(1)
    train(tiered, [bags(generator, 20) for _ in range(10)])
    assert 0 < tiered.rows_from_disk <= tiered.rows_claimed


def test_lookup_of_no_bags_has_the_type_of_computation(tmp_path) -> None:
    precision = HalfPrecision(torch.bfloat16, torch.float32, 1, [Shard(0, 0, 0, ROWS, DIM)], CPU)
    tiered = TieredKernel(OptimizerConfig(), (ROWS, DIM), precision, CPU, memory(5), tmp_path)
    tiered.lookup(bags(np.random.default_rng(1), 20))  # more rows than slots
    none = Bags(torch.empty(0, dtype=torch.int32), torch.empty(0, dtype=torch.int32))
    assert tiered.lookup(none).dtype == torch.float32
    assert tiered.lookup(none).shape == (0, DIM)
