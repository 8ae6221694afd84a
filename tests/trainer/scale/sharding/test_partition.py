"""Tests of the partitioners against exact partitions (prtpy) and by their invariants."""

import numpy as np
import prtpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.scale.sharding.partition import PARTITIONERS, Indivisible

NO_LIMIT = 1 << 50


def loads(sizes, num_ranks: int, placed=None, memory=None, room: int = NO_LIMIT) -> Indivisible:
    placed = np.array(placed if placed is not None else [0] * num_ranks, dtype=np.int64)
    memory = np.array(sizes if memory is None else memory, dtype=np.int64)
    return Indivisible(np.array(sizes, dtype=np.int64), memory, placed, np.full(num_ranks, room))


def longest(name: str, of: Indivisible) -> int:
    sums = of.placed.copy()
    np.add.at(sums, PARTITIONERS[name](of), of.sizes)
    return int(sums.max())


@pytest.mark.parametrize("seed", range(12))
def test_best_partition_is_close_to_exact_one(seed: int) -> None:
    draw = np.random.default_rng(seed)
    sizes, num_ranks = draw.integers(1, 1000, draw.integers(4, 12)).tolist(), int(draw.integers(2, 5))
    exact = prtpy.partition(
        algorithm=prtpy.partitioning.complete_greedy, numbins=num_ranks, items=sizes, outputtype=prtpy.out.LargestSum
    )
    best = min(longest(name, loads(sizes, num_ranks)) for name in PARTITIONERS)
    assert exact <= best <= 1.15 * exact  # repair follows; 1.126 was the worst of 300 cases like these
    assert longest("greedy", loads(sizes, num_ranks)) <= (4 / 3 - 1 / (3 * num_ranks)) * exact  # Graham 1969


@pytest.mark.parametrize("seed", range(6))
def test_differencing_equals_that_of_prtpy(seed: int) -> None:
    draw = np.random.default_rng(seed)
    sizes = draw.permutation(np.arange(1, 60) ** 2 + 100).tolist()  # no ties
    theirs = prtpy.partition(algorithm=prtpy.partitioning.kk, numbins=3, items=sizes, outputtype=prtpy.out.LargestSum)
    assert longest("largest_differencing", loads(sizes, 3)) == pytest.approx(theirs, rel=1e-3)


def test_differencing_evens_out_what_greedy_does_not() -> None:
    sizes = [8, 7, 6, 5, 4]  # Karmarkar and Karp's example: greedy 17, differencing 16
    assert longest("greedy", loads(sizes, 2)) == 17
    assert longest("largest_differencing", loads(sizes, 2)) == 16


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 10**12), max_size=30), st.integers(1, 7), st.sampled_from(sorted(PARTITIONERS)))
def test_every_load_has_a_rank(sizes: list[int], num_ranks: int, name: str) -> None:
    of = loads(sizes, num_ranks, placed=range(num_ranks))
    ranks = PARTITIONERS[name](of)
    assert len(ranks) == len(sizes)
    assert set(ranks) <= set(range(num_ranks))
    assert of.placed.tolist() == list(range(num_ranks))
    assert of.room.tolist() == [NO_LIMIT] * num_ranks


@pytest.mark.parametrize("name", PARTITIONERS)
def test_busy_rank_gets_no_load_if_others_are_idle(name: str) -> None:
    of = loads([5, 5, 5], 4, placed=[0, 100, 0, 0])
    of = Indivisible(of.sizes, of.memory, of.placed, np.array([50, 10, 50, 50]))
    assert sorted(PARTITIONERS[name](of)) == [0, 2, 3]


@pytest.mark.parametrize("name", ["greedy", "memory_balanced"])
def test_load_goes_to_a_rank_that_has_room(name: str) -> None:
    of = loads([9, 1], 2, memory=[1, 50])
    of = Indivisible(of.sizes, of.memory, of.placed, np.array([60, 20]))
    assert PARTITIONERS[name](of)[1] == 0


def test_memory_balanced_evens_out_memory_not_time() -> None:
    of = loads([100, 100, 1, 1], 2, memory=[1, 1, 100, 100])
    ranks = PARTITIONERS["memory_balanced"](of)
    assert ranks[2] != ranks[3]
