"""Tests of swaps: they even out the ranks, keep the loads exact, and respect memory."""

import random

import numpy as np

from trainer.registry import KINDS
from trainer.scale.sharding.assignment import Limits, assign, score
from trainer.scale.sharding.cost import MEMORY
from trainer.scale.sharding.options import options_of
from trainer.scale.sharding.planner import ShardingConfig
from trainer.scale.sharding.step import Step
from trainer.scale.sharding.swaps import swap_tables
from trainer.scale.sharding.workload import Table, Workload

MACHINE = ShardingConfig().machine(ranks_per_host=2)
NO_LIMIT = Limits(1 << 50)


def table_wise(tables, num_ranks: int):
    """Return the option of each table to be on a single rank, and the step of a job with these tables."""
    workload = Workload(tuple(tables), (64,) * num_ranks)
    step = Step(workload, MACHINE)
    kinds = {"table_wise": KINDS["table_wise"]}
    return [options_of(kinds, table, workload, MACHINE, step)[0] for table in tables], step


def test_ranks_are_even_after_swaps() -> None:
    options, step = table_wise([Table(100_000, 64, 1.0)] * 8, 4)
    result = swap_tables(assign(options, [0] * 8), step, NO_LIMIT)
    assert sorted(result.groups) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_two_tables_are_exchanged_where_no_move_helps() -> None:
    small, large = Table(100_000, 64, 10.0), Table(100_000, 64, 20.0)
    options, step = table_wise([large, large, small, small], 2)
    result = swap_tables(assign(options, [0, 0, 1, 1]), step, NO_LIMIT)
    assert result.groups[0] != result.groups[1]
    assert result.groups[2] != result.groups[3]


def test_loads_after_swaps_are_those_of_the_assignment() -> None:
    draw = random.Random(1)
    tables = [Table(draw.randint(10, 10**6), draw.choice([8, 64]), draw.choice([0.5, 1, 20])) for _ in range(30)]
    options, step = table_wise(tables, 5)
    start = assign(options, [0] * 30)
    result = swap_tables(start, step, NO_LIMIT)
    assert (result.loads == assign(options, result.groups).loads).all()
    assert score(result, step, NO_LIMIT) < score(start, step, NO_LIMIT)
    assert start.groups == [0] * 30  # the start is unchanged


def test_memory_goes_before_time() -> None:
    wide = Table(1_000_000, 64, 0.1)  # 260 MB and hardly any time
    options, step = table_wise([wide, wide, Table(10, 64, 20.0)], 2)
    limits = Limits(int(1.5 * 260e6))
    result = swap_tables(assign(options, [0, 0, 1]), step, limits)
    assert (result.loads[MEMORY] <= limits.room).all()
    assert not np.array_equal(result.groups[:2], [0, 0])
