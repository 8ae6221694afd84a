"""A whole table on one rank: all ids go there, and a pooled vector comes back for each bag."""

from collections.abc import Sequence

from trainer.sharding.kind import Shard


class TableWise:
    """For most tables: an id and a vector cross the network once."""

    name = "table_wise"
    replicated = False

    def choices(self, num_ranks: int) -> Sequence[tuple[int, ...]]:
        """Any one of them."""
        return [(rank,) for rank in range(num_ranks)]

    def shards(self, table: int, num_rows: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """All rows on the one rank."""
        return (Shard(table, ranks[0], 0, num_rows),)
