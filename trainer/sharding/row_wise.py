"""Equal ranges of a table's rows on every rank: an id goes where its row lies, and each rank sends the sum of what it
has of a bag; the sums are added up where the sample is."""

from collections.abc import Sequence

from trainer.sharding.kind import Shard


class RowWise:
    """For a table too large for one rank, or one so hot that its lookups must be shared out. A vector of each bag comes
    from every rank."""

    name = "row_wise"
    replicated = False

    def choices(self, num_ranks: int) -> Sequence[tuple[int, ...]]:
        """All of them."""
        return [tuple(range(num_ranks))]

    def shards(self, table: int, num_rows: int, ranks: Sequence[int]) -> tuple[Shard, ...]:
        """As even as can be; of a table with few rows some ranks hold none."""
        each = -(-num_rows // len(ranks))
        firsts = [min(place * each, num_rows) for place in range(len(ranks))]
        return tuple(
            Shard(table, rank, first, min(each, num_rows - first))
            for rank, first in zip(ranks, firsts, strict=True)
            if first < num_rows
        )
