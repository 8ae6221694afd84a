"""Tests of the choice of an option for each table: bounds of the seconds, and scarce memory."""

import numpy as np
import pytest

from trainer.registry import KINDS
from trainer.scale.sharding.assignment import assign
from trainer.scale.sharding.options import bounds, cheapest_options, options_of
from trainer.scale.sharding.planner import ShardingConfig
from trainer.scale.sharding.step import Step
from trainer.scale.sharding.workload import Table, Workload

MACHINE = ShardingConfig().machine(ranks_per_host=2)
NO_LIMIT = 1 << 50


def options(tables, num_ranks: int = 4, kinds=KINDS):
    """Return the options of each table, and the step of a job with these tables."""
    workload = Workload(tuple(tables), (256,) * num_ranks)
    step = Step(workload, MACHINE)
    return [options_of(kinds, table, workload, MACHINE, step) for table in tables], step


def test_bounds_are_the_seconds_of_an_even_plan() -> None:
    by_table, step = options([Table(100_000, 64, 1.0)] * 4, kinds={"table_wise": KINDS["table_wise"]})
    selected = cheapest_options(by_table, NO_LIMIT)
    seconds = step.seconds(assign(selected, [0, 1, 2, 3]).loads)
    assert bounds(selected, step) == pytest.approx((seconds.mean(), seconds.max()))


def test_no_plan_is_faster_than_bounds() -> None:
    by_table, step = options([Table(10_000 * number, 64, float(number)) for number in range(1, 9)])
    selected = [table_options[0] for table_options in by_table]
    draw = np.random.default_rng(0)
    for _ in range(50):
        seconds = step.seconds(assign(selected, draw.integers(0, 4, 8).tolist()).loads)
        assert seconds.max() >= max(bounds(selected, step)) * (1 - 1e-9)


def test_shard_on_the_only_group_of_its_kind_counts_as_alone() -> None:
    """With four ranks on a host, six ranks have one group of three on one host and one that is divided by hosts."""
    machine, table = ShardingConfig().machine(ranks_per_host=4), Table(100_000, 66, 10.0)
    workload = Workload((table,), (256,) * 6)
    step = Step(workload, machine)
    columns = options_of({"column_wise": KINDS["column_wise"]}, table, workload, machine, step)
    inside, divided = (
        next(option for option in columns if option.groups == [ranks]) for ranks in ((0, 1, 2), (3, 4, 5))
    )
    assert divided.longest_time > inside.longest_time  # squares cross hosts
    mean, alone = bounds([inside], step)
    assert alone == pytest.approx(2 * mean)


def test_copies_are_given_up_where_memory_is_scarce() -> None:
    by_table, _ = options([Table(300, 64, 20.0)] * 6)
    assert {option.kind for option in cheapest_options(by_table, NO_LIMIT)} == {"data_parallel"}
    memory = sum(option.total_bytes for option in cheapest_options(by_table, NO_LIMIT))
    frugal = cheapest_options(by_table, memory - 1)
    assert sum(option.total_bytes for option in frugal) < memory
    least = cheapest_options(by_table, 0)
    assert [option.total_bytes for option in least] == [min(o.total_bytes for o in of_table) for of_table in by_table]
