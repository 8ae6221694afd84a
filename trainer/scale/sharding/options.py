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

from trainer.scale.sharding.cost import (
    BATCH,
    DISK,
    HOST_MEMORY,
    PER_SECOND,
    STATE,
    WEIGHTS,
    WORK,
    Layout,
    Loads,
    layouts,
)
from trainer.scale.sharding.step import ALL_TO_ALLS, Step
from trainer.scale.sharding.workload import Array, Machine, Table, Workload
from trainer.sharding import Kind, Placement

MEMORY = WORK + 1  # the row of `decisive_loads` after the four rows that the seconds depend on; host and disk are next
ROWS = 7  # of `decisive_loads`
_THRESHOLDS = 16  # for shards, each shorter than the one before by the factor _SHORTER
_SHORTER = 0.8
_PRICES = 30  # halvings of the price of a byte


def decisive_loads(loads: Loads) -> Loads:
    """Return the rows that decide between plans (7, …): all-to-alls, work, and bytes of rank, host and disk."""
    memory = loads[WEIGHTS] + loads[STATE] + loads[BATCH]
    return np.concatenate([loads[: WORK + 1], memory[None], loads[[HOST_MEMORY, DISK]]])


@dataclass(frozen=True, eq=False)
class Option:
    """A kind for a table, with the groups of ranks that may hold it. Times are in picoseconds."""

    kind: str
    choices: Sequence[tuple[int, ...]]
    groups: NDArray[np.int64]  # (G, W)
    shards: Loads  # (7, W), see `decisive_loads`
    everywhere: Loads  # (7, R)
    times: Loads  # (W,) of the shards: work, and bytes that cross the network
    total: int  # time of all ranks
    mean: Array  # (7,) loads of a rank on average
    memory: int  # bytes of all ranks
    most: Loads  # (3,) bytes of the rank that needs most: of its memory, of its host's, on a disk

    @property
    def is_on_all_ranks(self) -> bool:
        """Return True if the table is on all ranks; some of them may have no part of a small table."""
        num_ranks: int = self.everywhere.shape[1]
        return len(self.choices[0]) == num_ranks

    @property
    def is_movable(self) -> bool:
        """Return True if there is a choice of ranks."""
        return len(self.groups) > 1 and self.times.size > 0

    @cached_property
    def longest(self) -> int:
        """The time of the longest shard."""
        return int(self.times.max(initial=0))

    @cached_property
    def can_be_on_any_rank(self) -> bool:
        """Return True if the table is on a single rank, which may be any."""
        ranks = np.arange(self.everywhere.shape[1])
        return self.groups.shape == (len(ranks), 1) and np.array_equal(self.groups[:, 0], ranks)

    def placement(self, group: int) -> Placement:
        """Return the placement on one of the groups."""
        return Placement(self.kind, self.choices[group])


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
    shards, everywhere = decisive_loads(layout.shards), decisive_loads(layout.everywhere)
    per_byte = step.per_byte[0] * PER_SECOND  # ranks differ only where samples or hosts are uneven
    times = np.rint(shards[:ALL_TO_ALLS].sum(axis=0) * per_byte).astype(np.int64) + shards[WORK]
    return Option(
        kind=kind,
        choices=layout.choices,
        groups=layout.groups,
        shards=shards,
        everywhere=everywhere,
        times=times,
        total=int(times.sum() + everywhere[WORK].sum()),
        mean=(shards.sum(axis=1) + everywhere.sum(axis=1)) / everywhere.shape[1],
        memory=int(shards[MEMORY].sum() + everywhere[MEMORY].sum()),
        most=everywhere[MEMORY:].max(axis=1) + shards[MEMORY:].max(axis=1, initial=0),
    )


def balanced_options(options: Sequence[Sequence[Option]], step: Step, memory: int) -> list[Option]:
    """Return an option for each table: the cheapest one whose shards are not too long, and that fit into memory."""
    selected = cheapest_options(options, memory)
    longest = max(option.longest for option in selected)
    choices = [cheapest_options(options, memory, int(longest * _SHORTER**power)) for power in range(1, _THRESHOLDS)]
    return min((selected, *choices), key=lambda selected: max(bounds(selected, step)))


def bounds(selected: Sequence[Option], step: Step) -> tuple[float, float]:
    """Return two lower bounds of the seconds of the slowest rank: the mean of all, and a rank with one shard alone.

    The shard is the longest one that cannot be split. Its rank also has its part of the tables that are on all ranks,
    and its samples exchange data with all shards. Ranks and hosts count as equal.
    """
    per_byte = float(step.per_byte[0])
    on_all = [option for option in selected if option.is_on_all_ranks]
    mean_loads = sum((option.mean for option in selected), np.zeros(ROWS))
    sample_seconds = mean_loads[:ALL_TO_ALLS] * per_byte
    mean = mean_loads[WORK] / PER_SECOND + sample_seconds[0] + sample_seconds[1] + sample_seconds[2]
    base = sum((option.mean for option in on_all), np.zeros(ROWS))
    largest = np.array([option.shards[:, option.times.argmax()] for option in selected if not option.is_on_all_ranks])
    with_base = base + largest.reshape(-1, ROWS)
    exchange = np.maximum(with_base[:, :ALL_TO_ALLS] * per_byte, sample_seconds)
    alone = with_base[:, WORK] / PER_SECOND + exchange[:, 0] + exchange[:, 1] + exchange[:, 2]
    return float(mean), float(alone.max(initial=0.0))


def cheapest_options(options: Sequence[Sequence[Option]], memory: int, threshold: int | None = None) -> list[Option]:
    """Return the option of each table with the least time in total, so that all of them need at most `memory` bytes.

    Shards longer than the threshold are avoided where a table has others. If nothing fits, the options need the least
    memory.
    """
    allowed = [_allowed(table_options, threshold) for table_options in options]

    def at_price(price: float) -> list[Option]:
        return [
            min(table_options, key=lambda option: option.total + price * option.memory) for table_options in allowed
        ]

    def fits(selected: Sequence[Option]) -> bool:
        return sum(option.memory for option in selected) <= memory

    selected = at_price(0.0)
    if fits(selected):
        return selected
    low, high = 0.0, 1e9  # picoseconds per byte
    least = at_price(high)
    if not fits(least):
        return [min(table_options, key=lambda option: (option.memory, option.total)) for table_options in options]
    for _ in range(_PRICES):
        middle = (low + high) / 2
        selected = at_price(middle)
        if fits(selected):
            high, least = middle, selected
        else:
            low = middle
    return least


def _allowed(table_options: Sequence[Option], threshold: int | None) -> list[Option]:
    if threshold is None:
        return list(table_options)
    allowed = [option for option in table_options if option.longest <= threshold]
    return allowed or [min(table_options, key=lambda option: (option.longest, option.total))]
