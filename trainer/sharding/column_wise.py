"""Column-wise sharding: ranges of the table's columns on several ranks, each with all rows.

Every id goes to all of these ranks. Each sends its columns of a bag's sum; the samples' rank puts them side by side.
Row-wise AdaGrad needs the mean square of a row's gradient over all columns, so these ranks add up their squares
(trainer/embedding/column_moments.py).
"""

from collections.abc import Sequence

from trainer.sharding.kind import Merge, Shard, ranges


class ColumnWise:
    """Ranges of columns on several ranks, for wide tables that are too large for one rank or slow it down.

    The vectors are as many bytes as those of a table on one rank, but every rank of the table looks up all ids.
    """

    name = "column_wise"
    replicated = False

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        """Return groups of consecutive ranks: of 2 and more ranks, as far as the number of ranks is divisible."""
        del ranks_per_host
        sizes = [size for size in range(2, num_ranks + 1) if num_ranks % size == 0] or [1]
        return [tuple(range(first, first + size)) for size in sizes for first in range(0, num_ranks, size)]

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Return ranges of equal width, the last one smaller; some ranks hold no column of a narrow table."""
        return tuple(
            Shard(table, rank, 0, num_rows, number, first, Merge.COLUMNS)
            for rank, (first, number) in zip(ranks, ranges(dim, len(ranks)), strict=True)
            if number
        )
