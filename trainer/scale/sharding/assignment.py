"""An assignment of tables to options and ranks, and its score.

Shapes: loads are (7, R), the seven rows of `decisive_loads` (cost.py) for each of R ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trainer.scale.sharding.cost import MEMORY, NUM_DECISIVE, Loads
from trainer.scale.sharding.options import Option
from trainer.scale.sharding.step import ALL_TO_ALLS, Step
from trainer.sharding import Placement


class Score(NamedTuple):
    """The three numbers that decide between two assignments, in this order; less is better."""

    excess_bytes: int  # that do not fit
    nanoseconds: list[int]  # of each rank, the slowest first
    sent_bytes: int


@dataclass(frozen=True)
class Limits:
    """The bytes that a rank has for tables: of its own memory, of its host's, and on a disk."""

    room: int
    host_room: int = 0
    disk_room: int = 0

    @property
    def rooms(self) -> Loads:
        """The three numbers (3,)."""
        return np.array([self.room, self.host_room, self.disk_room])

    def excess(self, loads: Loads) -> Loads:
        """Return the bytes of loads (…, 7, R) that do not fit (…, R)."""
        excess: Loads = np.maximum(loads[..., MEMORY:, :] - self.rooms[:, None], 0).sum(axis=-2)
        return excess


@dataclass
class Assignment:
    """The option and the group of each table, with the loads of all ranks (7, R)."""

    options: list[Option]
    groups: list[int]
    loads: Loads

    def copy(self) -> Assignment:
        """Return a copy that can be changed."""
        return Assignment(list(self.options), list(self.groups), self.loads.copy())

    def placements(self) -> list[Placement]:
        """Return the placement of each table."""
        return [option.placement(group) for option, group in zip(self.options, self.groups, strict=True)]

    def ranks(self, table: int) -> list[int]:
        """Return the ranks of the shards of a table."""
        ranks: list[int] = self.options[table].shard_ranks[self.groups[table]].tolist()
        return ranks

    def without(self, table: int) -> Loads:
        """Return the loads without a table."""
        option = self.options[table]
        loads = self.loads - option.fixed_loads
        loads[:, option.shard_ranks[self.groups[table]]] -= option.shard_loads
        return loads


def assign(options: Sequence[Option], groups: Sequence[int]) -> Assignment:
    """Return the assignment of each table to this group of its option."""
    loads = np.zeros((NUM_DECISIVE, options[0].fixed_loads.shape[1]), dtype=np.int64)
    for option, group in zip(options, groups, strict=True):
        loads += option.fixed_loads
        loads[:, option.shard_ranks[group]] += option.shard_loads
    return Assignment(list(options), list(groups), loads)


def best(stacked: Loads, step: Step, limits: Limits) -> tuple[Score, int]:
    """Return the lowest score of several loads (M, 7, R), and its index; the first one of several equal ones."""
    excess, times = limits.excess(stacked).sum(axis=-1), nanoseconds(stacked, step)
    slowest = times.max(axis=-1)
    candidates = np.flatnonzero(excess == excess.min())
    candidates = candidates[slowest[candidates] == slowest[candidates].min()]
    sent = stacked[candidates, :ALL_TO_ALLS].sum(axis=(-1, -2)).tolist()
    descending = (-np.sort(-times[candidates], axis=-1)).tolist()
    times_of_best, sent_of_best, index = min(zip(descending, sent, candidates.tolist(), strict=True))
    return Score(int(excess[index]), times_of_best, sent_of_best), index


def score(assignment: Assignment, step: Step, limits: Limits) -> Score:
    """Return the score of an assignment; a lower one is better."""
    return best(assignment.loads[None], step, limits)[0]


def nanoseconds(loads: Loads, step: Step) -> Loads:
    """Return the nanoseconds of the ranks (…, R); plans that differ by less are equal."""
    return np.rint(step.seconds(loads) * 1e9).astype(np.int64)
