"""What a way to spread a table over ranks has to say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Shard:
    """Rows `first_row` to `first_row + num_rows` of a table, on a rank. An id is looked up where its row lies."""

    table: int
    rank: int
    first_row: int
    num_rows: int


class Kind(Protocol):
    """One way to spread a table. Adding one: a file beside this, a line in `KINDS`."""

    name: str
    replicated: bool  # every rank has all rows and looks up its own samples: its gradients are summed instead

    def choices(self, num_ranks: int) -> Sequence[tuple[int, ...]]:
        """The ranks that may hold a table: what the planner chooses from."""
        ...

    def shards(self, table: int, num_rows: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Who holds what of a table on these ranks; a rank may hold no row of it."""
        ...
