"""The groups of shards that a rank looks up together: their vectors have one width and take the same way back.

Most plans have one group on each rank, which holds all its shards in one weight (as in FBGEMM's table-batched
embedding). Tables of several dimensions, and kinds whose vectors are merged in another way, have groups of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from trainer.sharding.kind import Merge, Shard


class Unit(NamedTuple):
    """Some columns of a table, to which a vector belongs."""

    table: int
    first_column: int
    num_columns: int


@dataclass(frozen=True)
class Group:
    """Shards of one rank, in the order of their vectors."""

    shards: tuple[Shard, ...]

    @property
    def merge(self) -> Merge:
        """The way in which their vectors are merged."""
        return self.shards[0].merge

    @property
    def width(self) -> int:
        """The columns of their vectors."""
        return self.shards[0].num_columns

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The columns that each vector belongs to."""
        return tuple(Unit(shard.table, shard.first_column, shard.num_columns) for shard in self.shards)


def group_key(shard: Shard) -> tuple[str, int, int]:
    """Return what the shards of a group have in common. A table whose columns are divided is a group of its own.

    The ranks that have the other columns look up the same rows, so that they can add up squares row by row.
    """
    return shard.merge.value, shard.table if shard.merge is Merge.COLUMNS else -1, shard.num_columns


def in_order(shards: Iterable[Shard]) -> tuple[Shard, ...]:
    """Return shards ordered by rank, then by group, then by table."""
    return tuple(sorted(shards, key=lambda shard: (shard.rank, *group_key(shard), shard.table, shard.first_row)))


def groups_of(shards: Sequence[Shard], num_ranks: int) -> list[tuple[Group, ...]]:
    """Return the groups of each rank, given the shards of all ranks in their order."""
    groups: list[list[Group]] = [[] for _ in range(num_ranks)]
    for (rank, *_), members in groupby(shards, key=lambda shard: (shard.rank, *group_key(shard))):
        groups[rank].append(Group(tuple(members)))
    return [tuple(of_rank) for of_rank in groups]
