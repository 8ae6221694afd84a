"""The interface of a sharding kind: a way to distribute a table over ranks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Shard:
    """Rows `first_row` to `first_row + num_rows` of a table on one rank, which looks up their ids."""

    table: int
    rank: int
    first_row: int
    num_rows: int


class Kind(Protocol):
    """A way to distribute a table over ranks. To add one, add a file and a line in `KINDS`."""

    name: str
    replicated: bool  # True: every rank has all rows and looks up its own samples; the gradients are all-reduced

    def choices(self, num_ranks: int) -> Sequence[tuple[int, ...]]:
        """Return the groups of ranks that may hold a table, from which the planner chooses."""
        ...

    def shards(self, table: int, num_rows: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Return the shards of a table on these ranks; a rank may hold no row of it."""
        ...
