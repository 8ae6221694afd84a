"""Local repair of tables on single ranks: moves and swaps between the slowest rank and the other ranks.

Each round looks at all swaps of a table of the slowest rank with a table of another rank, or with nothing. It makes the
swap after which the slower of the two ranks is fastest. It ends when no swap makes the slowest rank faster.

A swap changes the seconds of its two ranks. It also changes a little the bytes that the other ranks of their hosts
exchange with near and far ranks. A pass takes these as constant, and the next pass computes them again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainer.scale.sharding.assignment import Assignment, Limits, score
from trainer.scale.sharding.cost import MEMORY, PER_SECOND, Load
from trainer.scale.sharding.step import ALL_TO_ALLS, Step
from trainer.scale.sharding.workload import Array

_PENALTY = 1e-3  # seconds for a byte that a rank has no room for: so much that memory decides before time
_MAX_ROUNDS = 10_000


class _Ranks:
    """The seconds of each rank as a function of its own loads (…, 7) alone."""

    def __init__(self, assignment: Assignment, step: Step, limits: Limits) -> None:
        loads = assignment.loads
        self.byte_seconds, self.limits = step.byte_seconds[:, None], limits
        self.shares = (step.share * step.near_byte_seconds)[:, None]
        self.sample_seconds = step.sample_seconds(loads).T + self.shares * loads[:ALL_TO_ALLS].T

    def seconds(self, loads: NDArray[np.int64], ranks: NDArray[np.int64] | slice | int) -> Array:
        """Return the seconds of these ranks with these loads, plus a penalty for memory that they do not have."""
        exchanged = loads[..., :ALL_TO_ALLS]
        exchange = np.maximum(
            exchanged * self.byte_seconds[ranks], self.sample_seconds[ranks] - exchanged * self.shares[ranks]
        )
        excess = np.maximum(loads[..., MEMORY:] - self.limits.rooms, 0).sum(axis=-1)
        seconds: Array = loads[..., Load.WORK] / PER_SECOND + excess * _PENALTY
        return seconds + exchange[..., 0] + exchange[..., 1] + exchange[..., 2]


def swap_tables(assignment: Assignment, step: Step, limits: Limits) -> Assignment:
    """Return an assignment after swaps until they no longer improve it. Only tables of single ranks are swapped."""
    lowest = score(assignment, step, limits)
    while True:
        improved = _swap_until_even(assignment, step, limits)
        new = score(improved, step, limits)
        if new >= lowest:
            return assignment
        assignment, lowest = improved, new


def _swap_until_even(assignment: Assignment, step: Step, limits: Limits) -> Assignment:
    """Return an assignment after swaps with the slowest rank. A move is a swap with an empty shard of another rank."""
    num_ranks = assignment.loads.shape[1]
    tables = [table for table, option in enumerate(assignment.options) if option.can_be_on_any_rank]
    # The shards of the tables, then an empty shard on each rank
    rank_of = np.array([assignment.groups[table] for table in tables] + list(range(num_ranks)), dtype=np.int64)
    shards = np.zeros((len(rank_of), len(assignment.loads)), dtype=np.int64)
    for index, table in enumerate(tables):
        shards[index] = assignment.options[table].shard_loads[:, 0]
    ranks, loads = _Ranks(assignment, step, limits), assignment.loads.T.copy()
    seconds = ranks.seconds(loads, slice(None))
    for _ in range(_MAX_ROUNDS):
        slowest = int(seconds.argmax())
        own_shards = np.flatnonzero(rank_of[: len(tables)] == slowest)
        other_shards = np.flatnonzero(rank_of != slowest)
        if not len(own_shards) or not len(other_shards):
            break
        partners = rank_of[other_shards]
        # (own shards, other shards, loads): what leaves the slowest rank in each swap
        moved = shards[own_shards, None] - shards[None, other_shards]
        seconds_of_slower = np.maximum(
            ranks.seconds(loads[slowest] - moved, slowest), ranks.seconds(loads[partners] + moved, partners)
        )
        best = int(seconds_of_slower.argmin())
        if seconds_of_slower.flat[best] >= seconds[slowest]:
            break
        row, column = divmod(best, len(other_shards))
        partner, own_shard, other_shard = int(partners[column]), int(own_shards[row]), int(other_shards[column])
        loads[slowest] -= moved[row, column]
        loads[partner] += moved[row, column]
        rank_of[own_shard] = partner
        if other_shard < len(tables):  # empty shards stay
            rank_of[other_shard] = slowest
        pair = np.array([slowest, partner])
        seconds[pair] = ranks.seconds(loads[pair], pair)
    result = assignment.copy()
    for index, table in enumerate(tables):
        result.groups[table] = int(rank_of[index])
    result.loads = np.ascontiguousarray(loads.T)
    return result
