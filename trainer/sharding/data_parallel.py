"""A copy of a table on every rank, as of a dense layer: nothing crosses the network on the way to the pooled vectors,
and the gradients of all rows are summed over the ranks with those of the dense layers."""

from collections.abc import Sequence

from trainer.sharding.kind import Shard


class DataParallel:
    """For tables of so few rows that their whole gradient is smaller than a batch's vectors."""

    name = "data_parallel"
    replicated = True

    def choices(self, num_ranks: int) -> Sequence[tuple[int, ...]]:
        """All of them."""
        return [tuple(range(num_ranks))]

    def shards(self, table: int, num_rows: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """All rows on each."""
        return tuple(Shard(table, rank, 0, num_rows) for rank in ranks)
