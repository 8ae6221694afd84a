"""What is sent where: every id to where its row lies, every vector back to its sample."""

import pytest
import torch

from trainer.batch import Batch
from trainer.exchange import Exchange, WireConfig
from trainer.loader import Loaded
from trainer.sharding import Shard
from trainer.world import World

IDS = [[[4, 1], [], [2]], [[0], [1, 0, 1], []]]  # by table, by sample


def loaded() -> Loaded:
    flat = [i for table in IDS for bag in table for i in bag]
    lengths = [[len(bag) for bag in table] for table in IDS]
    return Loaded(0, 3, Batch(torch.zeros(3, 1), torch.tensor(flat), torch.tensor(lengths), torch.zeros(3)))


def exchange(shards, copied=(), **wire) -> Exchange:
    return Exchange(shards, copied, len(IDS), World(0, 1), WireConfig(**wire))


def bags_of(arrived) -> list[list[int]]:
    return [bag.tolist() for bag in arrived.rows.split(arrived.lengths.tolist())]


def test_ids_become_rows_of_the_one_weight_of_a_rank(alone) -> None:
    arrived = exchange([Shard(0, 0, 0, 5), Shard(1, 0, 0, 2)]).begin(loaded()).arrive()
    assert bags_of(arrived) == [[4, 1], [], [2], [5], [6, 5, 6], []]


def test_ids_go_where_their_rows_lie(alone) -> None:
    arrived = exchange([Shard(0, 0, 0, 3), Shard(0, 0, 3, 2), Shard(1, 0, 0, 2)]).begin(loaded()).arrive()
    assert bags_of(arrived) == [[1], [], [2], [4], [], [], [5], [6, 5, 6], []]


def test_nothing_is_sent_for_tables_that_every_rank_has(alone) -> None:
    arrived = exchange([Shard(1, 0, 0, 2)], copied=[0]).begin(loaded()).arrive()
    assert bags_of(arrived) == [[0], [1, 0, 1], []]
    assert bags_of(exchange([], copied=[0, 1]).begin(loaded()).arrive()) == []


def test_vectors_of_a_spread_table_are_added_up_and_its_gradient_goes_to_each_part(alone) -> None:
    sent = exchange([Shard(0, 0, 0, 3), Shard(0, 0, 3, 2)], copied=[1])
    vectors = torch.arange(12.0).view(6, 2)  # two shards, three samples
    of_copied = torch.full((3, 2), 100.0)
    joined = sent.joined(vectors, of_copied)
    assert torch.equal(joined[0], vectors[:3] + vectors[3:])
    assert torch.equal(joined[1], of_copied)
    of_shards, back = sent.parted(joined)
    assert torch.equal(of_shards, torch.cat([joined[0], joined[0]]))
    assert torch.equal(back, of_copied)


@pytest.mark.parametrize(("precision", "off"), [("full", 0.0), ("bfloat16", 2**-8), ("float16", 2**-11)])
def test_what_travels_is_rounded_as_told_and_small_gradients_survive(alone, precision, off) -> None:
    sent = exchange([Shard(0, 0, 0, 5), Shard(1, 0, 0, 2)], forward=precision, backward=precision)
    tiny = torch.linspace(1e-7, 1e-6, 12).view(6, 2)
    batch = Loaded(0, 3, loaded().batch)
    arrived = sent.pooled(tiny * 1e6, batch).arrive()
    assert torch.allclose(arrived, tiny * 1e6, rtol=off, atol=0)
    assert torch.allclose(
        sent.gradients(tiny, batch).arrive(), tiny, rtol=0.1 if precision == "float16" else off, atol=0
    )


@pytest.mark.parametrize("here", [0, 1])
def test_rank_without_shards_is_sent_nothing(here) -> None:
    of = Exchange([Shard(table, 1, 0, 5) for table in (0, 1)], [], 2, World(here, 2), WireConfig())
    assert of._num_bags(loaded()) == (([0, 4], [0, 0]) if here == 0 else ([0, 2], [4, 2]))
