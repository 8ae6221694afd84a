"""Placement, lookup, and row-wise AdaGrad against a naive one on a dense gradient."""

import pytest
import torch

from trainer.embedding import EmbeddingConfig, Tables, place
from trainer.errors import WorldError

CONFIG = EmbeddingConfig(rows=(5, 3, 8), dim=2, learning_rate=0.1, epsilon=1e-8)


def test_place_gives_every_table_to_one_rank_and_balances_rows() -> None:
    placement = place((100, 60, 50, 10, 1), ranks=2)
    assert placement == ((0, 3, 4), (1, 2))  # 111 and 110 rows
    assert place((7, 7, 7), ranks=3) == ((0,), (1,), (2,))


def test_place_gives_no_rank_nothing() -> None:
    assert all(place((1_000_000, 1, 1, 1), ranks=4))
    with pytest.raises(WorldError, match="3 ranks for 2 embedding tables"):
        place((4, 4), ranks=3)


def test_initial_weights_do_not_depend_on_the_owner() -> None:
    together = Tables(CONFIG, [0, 1, 2], seed=3, dtype=torch.float32)
    apart = Tables(CONFIG, [2], seed=3, dtype=torch.float32)
    assert torch.equal(together.weight[8:], apart.weight)
    assert apart.weight.abs().max() <= 8**-0.5


def test_lookup_sums_each_bag() -> None:
    tables = Tables(CONFIG, [0, 2], seed=3, dtype=torch.float64)
    lengths = torch.tensor([[[2, 0], [1, 3]]])  # one sender, two tables, two samples
    rows = tables.rows_of(torch.tensor([4, 4, 7, 0, 1, 0]), lengths)
    assert rows.tolist() == [4, 4, 12, 5, 6, 5]
    pooled = tables.lookup(rows, lengths)
    weight = tables.weight
    expected = [2 * weight[4], torch.zeros(2), weight[12], 2 * weight[5] + weight[6]]
    assert torch.allclose(pooled, torch.stack(expected))


def test_update_is_row_wise_adagrad_of_the_merged_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    tables = Tables(CONFIG, [0, 1, 2], seed=3, dtype=torch.float64)
    weight, accumulator = tables.weight.clone(), torch.zeros(16, dtype=torch.float64)
    for _ in range(5):
        lengths = torch.randint(0, 4, (2, 3, 6), generator=generator)  # 2 senders, 3 tables, 6 samples
        bags = [(table, n) for sender in lengths.tolist() for table, bag in enumerate(sender) for n in bag]
        ids = [torch.randint(0, CONFIG.rows[table], (n,), generator=generator) for table, n in bags]
        gradient = torch.randn(len(bags), 2, generator=generator, dtype=torch.float64)

        dense = torch.zeros_like(weight)  # the naive way: a gradient as large as all tables
        for (table, _), bag, of_bag in zip(bags, ids, gradient, strict=True):
            for row in bag.tolist():
                dense[(0, 5, 8)[table] + row] += of_bag
        accumulator += dense.square().mean(dim=1)
        weight -= CONFIG.learning_rate * dense / (accumulator.sqrt() + CONFIG.epsilon)[:, None]

        tables.update(tables.rows_of(torch.cat(ids), lengths), lengths, gradient)
    assert torch.allclose(tables.accumulator, accumulator, rtol=1e-13, atol=0)
    assert torch.allclose(tables.weight, weight, rtol=1e-13, atol=0)


def test_update_leaves_other_rows_alone() -> None:
    tables = Tables(CONFIG, [0], seed=3, dtype=torch.float64)
    before = tables.weight.clone()
    tables.update(torch.tensor([1, 1]), torch.tensor([[[2]]]), torch.ones(1, 2, dtype=torch.float64))
    assert (tables.weight != before).any(dim=1).tolist() == [False, True, False, False, False]
    assert tables.accumulator.tolist() == [0, 4, 0, 0, 0]  # merged to 2 before it was squared
