"""The starts of the planner: several choices of an option for each table, and their placements by each partitioner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from trainer.scale.sharding.assignment import Assignment, Limits, assign
from trainer.scale.sharding.options import MEMORY, Option, balanced_options, cheapest_options
from trainer.scale.sharding.partition import PARTITIONERS, Loads
from trainer.scale.sharding.step import Step


def selections(options: Sequence[Sequence[Option]], step: Step, limits: Limits) -> Iterator[list[Option]]:
    """Yield choices of an option for each table."""
    fitting = [
        [option for option in table_options if _fits(option, limits)] or table_options for table_options in options
    ]
    movable = [[option for option in table_options if option.is_movable] or table_options for table_options in fitting]
    memory = limits.room * len(step.share)
    first = balanced_options(fitting, step, memory)
    yield first
    least = [min(table_options, key=lambda option: int(option.most.sum())) for table_options in options]
    for selected in (
        cheapest_options(fitting, memory),
        cheapest_options(movable, memory),
        cheapest_options(fitting, 0),
        least,
    ):
        if selected != first:
            yield selected


def _fits(option: Option, limits: Limits) -> bool:
    return bool((option.most <= limits.rooms).all())


def starts(selected: Sequence[Option], limits: Limits) -> dict[str, Assignment]:
    """Return an assignment of these options for each partitioner.

    Tables on groups of several ranks come first, each to the group whose slowest rank is fastest.
    """
    groups = [0] * len(selected)
    single = [table for table, option in enumerate(selected) if option.can_be_on_any_rank]
    several = [table for table, option in enumerate(selected) if option.is_movable and not option.can_be_on_any_rank]
    num_ranks = selected[0].everywhere.shape[1]
    times, memory = np.zeros(num_ranks, dtype=np.int64), np.zeros(num_ranks, dtype=np.int64)  # of each rank
    for option in selected:
        memory += option.everywhere[MEMORY]
        if len(option.groups) == 1:
            times[option.groups[0]] += option.times
            memory[option.groups[0]] += option.shards[MEMORY]
    for table in sorted(several, key=lambda table: -selected[table].longest):
        option = selected[table]
        slowest = (times[option.groups] + option.times).max(axis=1)
        fits = (memory[option.groups] + option.shards[MEMORY]).max(axis=1) <= limits.room
        groups[table] = int(np.lexsort((slowest, ~fits))[0])  # first a group that fits, then the fastest one
        times[option.groups[groups[table]]] += option.times
        memory[option.groups[groups[table]]] += option.shards[MEMORY]
    indivisible = Loads(
        np.array([selected[table].longest for table in single], dtype=np.int64),
        np.array([int(selected[table].shards[MEMORY, 0]) for table in single], dtype=np.int64),
        times,
        limits.room - memory,
    )
    assignments = {}
    for name, partitioner in PARTITIONERS.items():
        for table, rank in zip(single, partitioner(indivisible), strict=True):
            groups[table] = rank
        assignments[name] = assign(selected, groups)
    return assignments
