"""The starts of the planner: several choices of an option for each table, and their placements by each partitioner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from trainer.scale.sharding.assignment import Assignment, Limits, assign
from trainer.scale.sharding.cost import MEMORY
from trainer.scale.sharding.options import Option, balanced_options, cheapest_options
from trainer.scale.sharding.partition import PARTITIONERS, IndivisibleLoads
from trainer.scale.sharding.step import Step


def selections(options: Sequence[Sequence[Option]], step: Step, limits: Limits) -> Iterator[list[Option]]:
    """Yield different choices of an option for each table, the most promising one first."""
    fitting = [
        [option for option in table_options if (option.peak_bytes <= limits.rooms).all()] or table_options
        for table_options in options
    ]
    movable = [[option for option in table_options if option.is_movable] or table_options for table_options in fitting]
    memory = limits.room * len(step.share)
    first = balanced_options(fitting, step, memory)
    yield first
    frugal = [min(table_options, key=lambda option: int(option.peak_bytes.sum())) for table_options in options]
    for selected in (
        cheapest_options(fitting, memory),
        cheapest_options(movable, memory),
        cheapest_options(fitting, 0),
        frugal,
    ):
        if selected != first:
            yield selected


def starts(selected: Sequence[Option], limits: Limits) -> dict[str, Assignment]:
    """Return an assignment of these options for each partitioner.

    Tables on groups of several ranks come first, each to the group whose slowest rank is fastest.
    """
    groups = [0] * len(selected)
    num_ranks = selected[0].fixed_loads.shape[1]
    times, memory = np.zeros(num_ranks, dtype=np.int64), np.zeros(num_ranks, dtype=np.int64)  # of each rank

    def place(option: Option, group: int) -> None:
        times[option.shard_ranks[group]] += option.shard_times
        memory[option.shard_ranks[group]] += option.shard_loads[MEMORY]

    for option in selected:
        memory += option.fixed_loads[MEMORY]
        if len(option.groups) == 1:
            place(option, 0)
    on_single_ranks = [table for table, option in enumerate(selected) if option.can_be_on_any_rank]
    on_groups = [table for table, option in enumerate(selected) if option.is_movable and not option.can_be_on_any_rank]
    for table in sorted(on_groups, key=lambda table: -selected[table].longest_time):
        option = selected[table]
        slowest = (times[option.shard_ranks] + option.shard_times).max(axis=1)
        fits = (memory[option.shard_ranks] + option.shard_loads[MEMORY]).max(axis=1) <= limits.room
        groups[table] = int(np.lexsort((slowest, ~fits))[0])  # first a group that fits, then the fastest one
        place(option, groups[table])
    loads = IndivisibleLoads(
        times=np.array([selected[table].longest_time for table in on_single_ranks], dtype=np.int64),
        memory=np.array([int(selected[table].shard_loads[MEMORY, 0]) for table in on_single_ranks], dtype=np.int64),
        placed_times=times,
        room=limits.room - memory,
    )
    assignments = {}
    for name, partitioner in PARTITIONERS.items():
        for table, rank in zip(on_single_ranks, partitioner(loads), strict=True):
            groups[table] = rank
        assignments[name] = assign(selected, groups)
    return assignments
