"""Tests of the route of ids, against a loop over all shards and ids."""

from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from trainer.batch import Batch
from trainer.registry import KINDS
from trainer.routing import Router
from trainer.sharding import Shard, group_key, in_order

NUM_RANKS, ROWS, NUM_SAMPLES = 3, (10, 1, 7, 100, 5), 8
KINDS_OF = {"t": "table_wise", "r": "row_wise", "c": "column_wise", "h": "table_row_wise"}


def shards_of(kinds: str) -> tuple[Shard, ...]:
    """Return the shards of tables with kinds of these letters; - is a replicated table."""
    return in_order(
        shard
        for table, kind in enumerate(kinds)
        if kind != "-"
        for shard in KINDS[KINDS_OF[kind]].shards(
            table, ROWS[table], 6, [table % NUM_RANKS] if kind == "t" else range(NUM_RANKS)
        )
    )


def batch(longest: int = 4) -> Batch:
    """Return samples with bags of 0 to `longest` ids."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(0, longest + 1, (len(ROWS), NUM_SAMPLES), generator=generator)
    ids = [torch.randint(0, rows, (int(n),), generator=generator) for rows, n in zip(ROWS, lengths.sum(1), strict=True)]
    return Batch(torch.zeros(NUM_SAMPLES, 1), torch.cat(ids), lengths, torch.zeros(NUM_SAMPLES))


def bags_by_loop(shards: Sequence[Shard], samples: Batch) -> list[list[int]]:
    """Return the bags by shard, then by sample, as rows of the weight of the shard's group."""
    bags = [bag.tolist() for bag in samples.ids.split(samples.lengths.flatten().tolist())]
    begins, result = Counter(), []
    for shard in shards:
        group = shard.rank, group_key(shard)
        table_bags = bags[shard.table * NUM_SAMPLES : (shard.table + 1) * NUM_SAMPLES]
        rows = range(shard.first_row, shard.first_row + shard.num_rows)
        result += [[i - shard.first_row + begins[group] for i in bag if i in rows] for bag in table_bags]
        begins[group] += shard.num_rows
    return result


@pytest.mark.parametrize("longest", [0, 1, 4])
@pytest.mark.parametrize("kinds", ["ttttt", "rrrrr", "-----", "tr-rt", "r-t-r", "ccccc", "hhhhh", "crhct"])
def test_ids_go_to_the_shards_of_their_rows(kinds, longest) -> None:
    shards, samples = shards_of(kinds), batch(longest=longest)
    routed = Router(shards).route(samples)
    assert [bag.tolist() for bag in routed.rows.split(routed.lengths.tolist())] == bags_by_loop(shards, samples)
    assert (routed.rows.dtype, routed.lengths.dtype) == (torch.int32, torch.int32)


@pytest.mark.parametrize("kinds", ["ccccc", "crhct"])
def test_ids_go_to_the_same_rows_if_each_shard_has_a_copy_of_its_own(kinds, monkeypatch) -> None:
    shards, samples = shards_of(kinds), batch()
    expected = Router(shards).route(samples)
    monkeypatch.setattr("trainer.routing._MANY_IDS", 0)
    routed = Router(shards).route(samples)
    assert torch.equal(routed.rows, expected.rows)
    assert torch.equal(routed.lengths, expected.lengths)


def test_rank_with_too_many_rows_gets_rows_of_its_shards() -> None:
    shards, samples = shards_of("trtrt"), batch()
    usual = Router(shards, max_rows=1000).route(samples)
    router = Router(shards, max_rows=1)
    large = router.route(samples)
    offsets = torch.cat([router.row_offsets(rank) for rank in range(NUM_RANKS)])
    shifts = offsets.repeat_interleave(NUM_SAMPLES).repeat_interleave(large.lengths)
    assert torch.equal(large.rows + shifts, usual.rows)
    assert Router(shards, max_rows=1000).row_offsets(0) is None
