"""The options of a table: each kind with the groups of ranks that may hold it, and the choice of kinds.

A shard is on one rank and indivisible. So a step takes at least as long as the longest shard, and as the mean of all
ranks. Splitting a table makes its shards shorter and adds work in total. `balanced_options` tries several thresholds:
each table takes its cheapest option whose shards are not longer. The best threshold is the one with the lowest bound of
the step. If memory is scarce, a byte has a price in seconds: the lowest price with which all tables fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trainer.scale.sharding.cost import MEMORY, NUM_DECISIVE, PER_SECOND, Layout, Load, Loads, decisive_loads, layouts
from trainer.scale.sharding.step import ALL_TO_ALLS, Step
from trainer.scale.sharding.workload import Array, Machine, Table, Workload
from trainer.sharding import Kind, Placement

_NUM_THRESHOLDS = 16  # of the time of a shard
_NEXT_THRESHOLD = 0.8  # as a multiple of the one before
_NUM_PRICES = 30  # of a byte; each halves the interval of the price


@dataclass(frozen=True, eq=False)
class Option:
    """A kind for a table, with the groups of ranks that may hold it (see `Layout`). Times are in picoseconds."""

    kind: str
    groups: Sequence[tuple[int, ...]]
    shard_ranks: NDArray[np.int64]  # (G, W)
    shard_loads: Loads  # (7, W), see `decisive_loads`
    fixed_loads: Loads  # (7, R)
    shard_times: Loads  # (W,) work, and bytes that cross the network
    total_time: int  # of all ranks
    mean_loads: Array  # (7,) of a rank on average
    total_bytes: int  # memory of all ranks
    peak_bytes: Loads  # (3,) of the rank that needs most: of its memory, of its host's, on a disk

    @property
    def is_on_all_ranks(self) -> bool:
        """Return True if the table is on all ranks; some of them may have no part of a small table."""
        num_ranks: int = self.fixed_loads.shape[1]
        return len(self.groups[0]) == num_ranks

    @property
    def is_movable(self) -> bool:
        """Return True if there is a choice of ranks."""
        return len(self.shard_ranks) > 1 and self.shard_times.size > 0

    @cached_property
    def longest_time(self) -> int:
        """The time of the longest shard."""
        return int(self.shard_times.max(initial=0))

    @cached_property
    def can_be_on_any_rank(self) -> bool:
        """Return True if the table is on a single rank, which may be any."""
        ranks = np.arange(self.fixed_loads.shape[1])
        return self.shard_ranks.shape == (len(ranks), 1) and np.array_equal(self.shard_ranks[:, 0], ranks)

    def placement(self, group: int) -> Placement:
        """Return the placement on one of the groups."""
        return Placement(self.kind, self.groups[group])


def options_of(
    kinds: Mapping[str, Kind], table: Table, workload: Workload, machine: Machine, step: Step
) -> list[Option]:
    """Return all options of a table."""
    return [
        _option(name, layout, step)
        for name, kind in kinds.items()
        for layout in layouts(kind, table, workload, machine)
    ]


def _option(kind: str, layout: Layout, step: Step) -> Option:
    shards, fixed = decisive_loads(layout.shard_loads), decisive_loads(layout.fixed_loads)
    per_byte = step.byte_seconds[0] * PER_SECOND  # ranks differ only where samples or hosts are uneven
    times = np.rint(shards[:ALL_TO_ALLS].sum(axis=0) * per_byte).astype(np.int64) + shards[Load.WORK]
    return Option(
        kind=kind,
        groups=layout.groups,
        shard_ranks=layout.shard_ranks,
        shard_loads=shards,
        fixed_loads=fixed,
        shard_times=times,
        total_time=int(times.sum() + fixed[Load.WORK].sum()),
        mean_loads=(shards.sum(axis=1) + fixed.sum(axis=1)) / fixed.shape[1],
        total_bytes=int(shards[MEMORY].sum() + fixed[MEMORY].sum()),
        peak_bytes=fixed[MEMORY:].max(axis=1) + shards[MEMORY:].max(axis=1, initial=0),
    )


def balanced_options(options: Sequence[Sequence[Option]], step: Step, memory: int) -> list[Option]:
    """Return an option for each table: the cheapest ones at the best threshold, which fit into `memory` bytes."""
    without_threshold = cheapest_options(options, memory)
    longest = max(option.longest_time for option in without_threshold)
    thresholds = [int(longest * _NEXT_THRESHOLD**power) for power in range(1, _NUM_THRESHOLDS)]
    with_threshold = [cheapest_options(options, memory, threshold) for threshold in thresholds]
    return min((without_threshold, *with_threshold), key=lambda selected: max(bounds(selected, step)))


def bounds(selected: Sequence[Option], step: Step) -> tuple[float, float]:
    """Return two lower bounds of the seconds of the slowest rank. Ranks and hosts count as equal.

    The first one is the mean of all ranks. The second one is the time of a rank that has its part of the tables on all
    ranks, and one more shard: the longest one. Its samples exchange data with all shards.
    """
    per_byte = float(step.byte_seconds[0])
    on_all = [option for option in selected if option.is_on_all_ranks]
    mean_loads = sum((option.mean_loads for option in selected), np.zeros(NUM_DECISIVE))
    sample_seconds = mean_loads[:ALL_TO_ALLS] * per_byte
    mean = mean_loads[Load.WORK] / PER_SECOND + sample_seconds[0] + sample_seconds[1] + sample_seconds[2]
    base = sum((option.mean_loads for option in on_all), np.zeros(NUM_DECISIVE))
    others = [option for option in selected if not option.is_on_all_ranks]
    longest_shards = np.array([option.shard_loads[:, option.shard_times.argmax()] for option in others])
    with_base = base + longest_shards.reshape(-1, NUM_DECISIVE)
    exchange = np.maximum(with_base[:, :ALL_TO_ALLS] * per_byte, sample_seconds)
    alone = with_base[:, Load.WORK] / PER_SECOND + exchange[:, 0] + exchange[:, 1] + exchange[:, 2]
    return float(mean), float(alone.max(initial=0.0))


def cheapest_options(options: Sequence[Sequence[Option]], memory: int, threshold: int | None = None) -> list[Option]:
    """Return an option for each table: together they need the least time, and at most `memory` bytes.

    Shards longer than the threshold are avoided where a table has others. If nothing fits, the options need the least
    memory.
    """
    allowed = [_allowed(table_options, threshold) for table_options in options]

    def at_price(price: float) -> list[Option]:
        return [
            min(of_table, key=lambda option: option.total_time + price * option.total_bytes) for of_table in allowed
        ]

    def fits(selected: Sequence[Option]) -> bool:
        return sum(option.total_bytes for option in selected) <= memory

    selected = at_price(0.0)
    if fits(selected):
        return selected
    low, high = 0.0, 1e9  # prices in picoseconds per byte
    at_high = at_price(high)
    if not fits(at_high):
        return [min(of_table, key=lambda option: (option.total_bytes, option.total_time)) for of_table in options]
    for _ in range(_NUM_PRICES):
        middle = (low + high) / 2
        selected = at_price(middle)
        if fits(selected):
            high, at_high = middle, selected
        else:
            low = middle
    return at_high


def _allowed(table_options: Sequence[Option], threshold: int | None) -> list[Option]:
    """Return the options whose shards are not longer than the threshold; if there are none, the shortest one."""
    if threshold is None:
        return list(table_options)
    allowed = [option for option in table_options if option.longest_time <= threshold]
    return allowed or [min(table_options, key=lambda option: (option.longest_time, option.total_time))]
