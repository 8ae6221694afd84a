"""Table-row-wise sharding: a table on one host, with equal ranges of its rows on the ranks of that host.

The ranks of the host add up their sums of a bag before a vector leaves the host (trainer/host_reduction.py), so the
network between hosts carries as many bytes as for a table on one rank.
"""

from collections.abc import Sequence

from trainer.sharding.kind import Merge, Shard, ranges


class TableRowWise:
    """Ranges of rows on the ranks of one host, for large tables where the network between hosts is slow."""

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
            Shard(table, rank, first, number, dim, merge=Merge.HOST)
            for rank, (first, number) in zip(ranks, ranges(num_rows, len(ranks)), strict=True)
        )
