"""Kinds of sharding that divide a table: by rows, by columns, and by rows over the ranks of one host."""

from collections.abc import Sequence

from trainer.sharding import Merge, Shard


class RowWise:
    """Ranges of rows on every rank, for tables that are too large for one rank or have too many lookups for it.

    An id goes to the rank of its row. Every rank sends the sum of its rows of a bag; the rank of the samples adds up
    these sums.
    """

    name = "row_wise"
    replicated = False

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        """Return the only choice: all ranks."""
        return [tuple(range(num_ranks))]

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Return ranges of equal size, the last one smaller; some ranks hold no row of a table with few rows."""
        return tuple(
            Shard(table, rank, first_row, size, num_columns=dim)
            for rank, (first_row, size) in zip(ranks, ranges(num_rows, len(ranks)), strict=True)
            if size
        )


class ColumnWise:
    """Ranges of columns on several ranks, each with all rows, for wide tables that are too large or slow for one rank.

    The network carries as many bytes as for a table on one rank, but every rank of the table looks up all ids. Every
    rank sends its columns of a bag's sum; the rank of the samples puts them side by side. Row-wise AdaGrad needs the
    mean square of a row's gradient over all columns, so these ranks add up their squares
    (trainer/scale/column_moments.py).
    """

    name = "column_wise"
    replicated = False

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        """Return groups of consecutive ranks, of each size from 2 on that divides the number of ranks."""
        sizes = [size for size in range(2, num_ranks + 1) if num_ranks % size == 0] or [1]
        return [tuple(range(first, first + size)) for size in sizes for first in range(0, num_ranks, size)]

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Return ranges of equal width, the last one smaller; some ranks hold no column of a narrow table."""
        return tuple(
            Shard(table, rank, 0, num_rows, num_columns=size, first_column=first_column, merge=Merge.COLUMNS)
            for rank, (first_column, size) in zip(ranks, ranges(dim, len(ranks)), strict=True)
            if size
        )


class TableRowWise:
    """Ranges of rows on the ranks of one host, for large tables where the network between hosts is slow.

    The ranks of the host add up their sums of a bag before a vector leaves the host (trainer/scale/host_reduction.py).
    So the network between hosts carries as many bytes as for a table on one rank.
    """

    name = "table_row_wise"
    replicated = False

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        """Return the ranks of each host, and nothing if the hosts have different numbers of ranks."""
        if num_ranks % ranks_per_host:
            return []
        return [tuple(range(first, first + ranks_per_host)) for first in range(0, num_ranks, ranks_per_host)]

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Return ranges of equal size, the last one smaller. All ranks of the host take part, also without a row."""
        return tuple(
            Shard(table, rank, first_row, size, num_columns=dim, merge=Merge.HOST)
            for rank, (first_row, size) in zip(ranks, ranges(num_rows, len(ranks)), strict=True)
        )


def ranges(total: int, num_ranges: int) -> list[tuple[int, int]]:
    """Divide `total` rows or columns into ranges of (first, size): equal ones, a smaller one, then empty ones."""
    largest = -(-total // num_ranges)
    firsts = [min(index * largest, total) for index in range(num_ranges)]
    return [(first, min(largest, total - first)) for first in firsts]
