"""Table-wise sharding: a whole table on one rank, which receives all ids and returns a pooled vector for each bag."""

from collections.abc import Sequence

from trainer.sharding.kind import Shard


class TableWise:
    """A whole table on one rank, best for most tables: each id and each vector crosses the network once."""

    name = "table_wise"
    replicated = False

    def choices(self, num_ranks: int, ranks_per_host: int) -> Sequence[tuple[int, ...]]:
        """Return each single rank as a choice."""
        del ranks_per_host
        return [(rank,) for rank in range(num_ranks)]

    def shards(self, table: int, num_rows: int, dim: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """Return one shard with all rows."""
        return (Shard(table, ranks[0], 0, num_rows, dim),)
