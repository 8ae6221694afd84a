"""Tests of the all-to-alls: ids go to the shards of their rows, and vectors return to their samples."""

import math

import pytest
import torch

from trainer.batch import Batch, StepBatch
from trainer.exchange import Exchange, WireConfig
from trainer.routing import Router
from trainer.sharding import Shard, in_order
from trainer.world import World

IDS = [[[4, 1], [], [2]], [[0], [1, 0, 1], []]]  # by table, by sample


def small_batch() -> StepBatch:
    """Return a batch of three samples with the ids of two tables."""
    ids = torch.tensor([row for table in IDS for bag in table for row in bag])
    lengths = torch.tensor([[len(bag) for bag in table] for table in IDS])
    return StepBatch(step=0, global_batch=3, batch=Batch(torch.zeros(3, 1), ids, lengths, torch.zeros(3)))


def exchange(shards, replicated=(), **wire) -> Exchange:
    """Return the exchange of a single rank with two tables of two columns."""
    return Exchange(in_order(shards), replicated, (2, 2), World(0, 1), WireConfig(**wire), torch.float32)


def as_lists(groups) -> list[list[int]]:
    """Return the bags of a rank with one group, or with none."""
    if not groups:
        return []
    (bags,) = groups
    return [bag.tolist() for bag in bags.rows.split(bags.lengths.tolist())]


# Table 0 has five rows, as a whole or in two parts; table 1 has two.
FIRST, PARTS, SECOND = Shard(0, 0, 0, 5, 2), (Shard(0, 0, 0, 3, 2), Shard(0, 0, 3, 2, 2)), Shard(1, 0, 0, 2, 2)
SHARDS = {  # the shards, the replicated tables → the bags that arrive, by shard and sample
    "whole tables": ([FIRST, SECOND], (), [[4, 1], [], [2], [5], [6, 5, 6], []]),  # rows of the concatenated weight
    "parts of rows": ([*PARTS, SECOND], (), [[1], [], [2], [4], [], [], [5], [6, 5, 6], []]),
    "a table is replicated": ([SECOND], [0], [[0], [1, 0, 1], []]),
    "all tables are replicated": ([], [0, 1], []),
}


@pytest.mark.parametrize(("shards", "replicated", "bags"), SHARDS.values(), ids=SHARDS)
def test_ids_are_sent_to_shards_of_their_rows(single_rank_world, shards, replicated, bags) -> None:
    assert as_lists(exchange(shards, replicated).send_ids(small_batch()).wait()) == bags


def test_ids_that_have_arrived_stay_the_same_bags(single_rank_world) -> None:
    """A kernel with rows on a disk recognizes the bags that it prefetched, because they are the same object."""
    ids = exchange([FIRST, SECOND]).send_ids(small_batch())
    assert ids.wait()[0] is ids.wait()[0]


def test_row_wise_table_sums_vectors_and_copies_gradient_to_shards(single_rank_world) -> None:
    routes = exchange(PARTS, replicated=[1])
    vectors = torch.arange(12.0).view(6, 2)  # two shards, three samples
    replicated = torch.full((3, 2), 100.0)
    sent = routes.send_pooled([vectors], small_batch())
    merged = routes.merge(sent, {2: replicated})
    assert torch.equal(merged[0], vectors[:3] + vectors[3:])
    assert torch.equal(merged[1], replicated)
    sharded, back = routes.arrivals.split(merged)
    assert torch.equal(sharded, torch.cat([merged[0], merged[0]]).flatten())
    assert torch.equal(back[2], replicated)


@pytest.mark.parametrize(("precision", "error"), [("full", 0.0), ("bfloat16", 2**-8), ("float16", 2**-11)])
def test_vectors_are_rounded_as_configured_and_small_gradients_survive(single_rank_world, precision, error) -> None:
    routes = exchange([FIRST, SECOND], forward=precision, backward=precision)
    tiny = torch.linspace(1e-7, 1e-6, 12).view(6, 2)
    batch = StepBatch(0, 3, small_batch().batch)
    received = routes.send_pooled([tiny * 1e6], batch).wait()
    assert torch.allclose(received, tiny.flatten() * 1e6, rtol=error, atol=0)
    (gradient,) = routes.by_group(routes.send_gradients(tiny.flatten(), batch), batch)
    assert torch.allclose(gradient, tiny, rtol=0.1 if precision == "float16" else error, atol=0)


def test_value_too_large_for_half_precision_arrives_as_the_largest_finite_one(single_rank_world) -> None:
    routes = exchange([FIRST], forward="float16", backward="float16")
    values = torch.tensor([7e4, -7e4, 1.0, float("inf"), -float("inf"), float("nan")])[:, None].repeat(1, 2)
    batch = StepBatch(0, 6, small_batch().batch)
    received = routes.send_pooled([values], batch).wait()[::2].tolist()
    assert received[:5] == [65504.0, -65504.0, 1.0, float("inf"), -float("inf")]
    assert math.isnan(received[5])
    gradients = routes.by_group(routes.send_gradients(values.flatten() / 6, batch), batch)[0][:, 0] * 6
    assert gradients[:2].tolist() == pytest.approx([65504.0, -65504.0])


def test_rank_with_more_rows_than_32_bits_number_gets_all_its_rows(single_rank_world, monkeypatch) -> None:
    (usual,) = exchange([FIRST, SECOND]).send_ids(small_batch()).wait()
    monkeypatch.setattr(Router.__init__, "__defaults__", (6,))
    (large,) = exchange([FIRST, SECOND]).send_ids(small_batch()).wait()
    assert (usual.rows.dtype, large.rows.dtype) == (torch.int32, torch.int64)
    assert as_lists([large]) == as_lists([usual])
    assert torch.equal(large.offsets, usual.offsets)


def test_numbers_of_rows_can_go_beside_the_lengths(single_rank_world) -> None:
    """With a GPU, they go through a process group of the CPUs."""
    routes = exchange([*PARTS, SECOND])
    (usual,) = routes.send_ids(small_batch()).wait()
    routes._cpu_ranks = torch.distributed.new_group(backend="gloo")
    (beside,) = routes.send_ids(small_batch()).wait()
    assert torch.equal(beside.rows, usual.rows)


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_without_shards_receives_nothing(rank) -> None:
    shards = [Shard(table, 1, 0, 5, 3) for table in (0, 1)]
    routes = Exchange(shards, [], (3, 3), World(rank, 2), WireConfig(), torch.float32)
    to_send, to_receive = routes._departures.sizes([2, 1]), routes.arrivals.sizes([2, 1][rank])
    assert (to_send, to_receive) == (([0, 0], [0, 12]) if rank == 0 else ([12, 6], [0, 6]))
