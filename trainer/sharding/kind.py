"""The interface of a sharding kind: a way to distribute a table over ranks."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


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
    """A way to distribute a table over ranks. To add one, add a file and a line in `KINDS`."""

    name: str
    replicated: bool  # True: every rank has all rows and looks up its own samples; the gradients are all-reduced

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        """Return the groups of ranks that may hold a table, from which the planner chooses."""
        ...

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Return the shards of a table of `dim` columns on these ranks; a rank may hold no row of it."""
        ...


def ranges(size: int, number: int) -> list[tuple[int, int]]:
    """Divide `size` rows or columns into ranges of (first, number): equal ones, a smaller one, then empty ones."""
    length = -(-size // number)
    firsts = [min(position * length, size) for position in range(number)]
    return [(first, min(length, size - first)) for first in firsts]
