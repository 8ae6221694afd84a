"""The placement of embedding tables: the kind and the ranks of each table, and the shards that each rank holds.

A kind defines which rank holds which rows and columns. The shards of a rank that are looked up together are a group:
their vectors have one width and are merged in one way. Most plans have one group on each rank, which holds all its
shards in one weight (as in FBGEMM's table-batched embedding).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import groupby
from typing import NamedTuple, Protocol


class Merge(Enum):
    """The way in which the vectors of a table's shards become one vector for each bag."""

    SUM = "sum"  # the rank of the samples adds them up; a table on one rank has only one
    COLUMNS = "columns"  # the rank of the samples puts them side by side
    HOST = "host"  # the ranks of the shards' host add them up, so that one vector leaves the host


@dataclass(frozen=True)
class Shard:
    """Some rows and columns of a table on one rank, which looks up their ids."""

    table: int
    rank: int
    first_row: int
    num_rows: int
    num_columns: int
    first_column: int = 0
    merge: Merge = Merge.SUM


class Kind(Protocol):
    """A way to distribute a table over ranks. To add one, add a class and its line in `KINDS` (registry.py)."""

    name: str
    replicated: bool  # True: every rank has all rows and looks up its own samples; the gradients are all-reduced

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        """Return the groups of ranks that may hold a table, from which the planner chooses."""

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Return the shards of a table of `dim` columns on these ranks; a rank may hold no row of it."""


class TableWise:
    """A whole table on one rank, which receives all ids and returns a pooled vector for each bag.

    It is best for most tables: each id and each vector crosses the network once.
    """

    name = "table_wise"
    replicated = False

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        return [(rank,) for rank in range(num_ranks)]

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        return (Shard(table, ranks[0], first_row=0, num_rows=num_rows, num_columns=dim),)


class DataParallel:
    """A copy on every rank, for tables whose whole gradient is smaller than the pooled vectors of a batch.

    The lookup needs no communication. The gradients of all rows are all-reduced together with the dense gradients.
    """

    name = "data_parallel"
    replicated = True

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        return [tuple(range(num_ranks))]

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        return tuple(Shard(table, rank, first_row=0, num_rows=num_rows, num_columns=dim) for rank in ranks)


@dataclass(frozen=True)
class Placement:
    """The placement of one table."""

    kind: str
    ranks: tuple[int, ...]  # the ranks that hold it, in the order of its shards


class Unit(NamedTuple):
    """Some columns of a table. Each pooled vector has the columns of one unit."""

    table: int
    first_column: int
    num_columns: int


@dataclass(frozen=True)
class Group:
    """Shards of one rank that are looked up together, in the order of their vectors."""

    shards: tuple[Shard, ...]

    @property
    def merge(self) -> Merge:
        """The way in which the vectors of all shards are merged."""
        return self.shards[0].merge

    @property
    def width(self) -> int:
        """The number of columns of each vector."""
        return self.shards[0].num_columns

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The unit of each shard."""
        return tuple(Unit(shard.table, shard.first_column, shard.num_columns) for shard in self.shards)


def group_key(shard: Shard) -> tuple[str, int, int]:
    """Return what all shards of a group on one rank have in common: merge, table and number of columns.

    The shard of a column-wise table is a group of its own; the table of other groups is -1. So all ranks with columns
    of a table look up the same rows in the same order, and can add up their squared gradients row by row.
    """
    return shard.merge.value, shard.table if shard.merge is Merge.COLUMNS else -1, shard.num_columns


def in_order(shards: Iterable[Shard]) -> tuple[Shard, ...]:
    """Return shards ordered by rank, then by group, then by table."""
    return tuple(sorted(shards, key=lambda shard: (shard.rank, group_key(shard), shard.table, shard.first_row)))


def all_groups(shards: Sequence[Shard]) -> list[Group]:
    """Return the groups of all ranks, ordered by rank, given the shards of all ranks in their order."""
    return [Group(tuple(same)) for _, same in groupby(shards, key=lambda shard: (shard.rank, group_key(shard)))]


def groups_of(shards: Sequence[Shard], num_ranks: int) -> list[tuple[Group, ...]]:
    """Return the groups of each rank, given the shards of all ranks in their order."""
    groups: list[list[Group]] = [[] for _ in range(num_ranks)]
    for group in all_groups(shards):
        groups[group.shards[0].rank].append(group)
    return [tuple(groups_of_rank) for groups_of_rank in groups]


def shards_of(
    placements: Sequence[Placement], kinds: Mapping[str, Kind], rows: Sequence[int], dims: Sequence[int]
) -> tuple[Shard, ...]:
    """Return the shards of all tables that are not replicated, ordered by rank, then by group, then by table."""
    return in_order(
        shard
        for table, placement in enumerate(placements)
        if not kinds[placement.kind].replicated
        for shard in kinds[placement.kind].shards(table, rows[table], dims[table], placement.ranks)
    )
