"""Row-wise sharding: equal ranges of the table's rows on every rank.

An id goes to the rank of its row. Each rank sends the sum of its rows of a bag; the samples' rank adds up these sums.
"""

from collections.abc import Sequence

from trainer.sharding.kind import Shard, ranges


class RowWise:
    """Ranges of rows on every rank, for tables that are too large for one rank or have too many lookups for it.

    Every rank sends a vector for each bag.
    """

    name = "row_wise"
    replicated = False

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        """Return the only choice: all ranks."""
        del ranks_per_host
        return [tuple(range(num_ranks))]

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Return ranges of equal size, the last one smaller; some ranks hold no row of a table with few rows."""
        return tuple(
            Shard(table, rank, first, number, dim)
            for rank, (first, number) in zip(ranks, ranges(num_rows, len(ranks)), strict=True)
            if number
        )
