"""Data-parallel sharding: a copy of the table on every rank, as for a dense layer.

The lookup needs no communication. The gradients of all rows are all-reduced with the gradients of the dense layers.
"""

from collections.abc import Sequence

from trainer.sharding.kind import Shard


class DataParallel:
    """A copy on every rank, for tables whose whole gradient is smaller than the pooled vectors of a batch."""

    name = "data_parallel"
    replicated = True

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        """Return the only choice: all ranks."""
        del ranks_per_host
        return [tuple(range(num_ranks))]

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Return one shard with all rows for each rank."""
        return tuple(Shard(table, rank, 0, num_rows, dim) for rank in ranks)
