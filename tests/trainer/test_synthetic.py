"""Tests of synthetic samples.

The slices of any number of ranks form the same global batch. Ids follow Zipf's law. Labels depend on ids and dense
features.
"""

import numpy as np
import pytest
import torch

from trainer.batch import shares
from trainer.errors import ConfigError
from trainer.synthetic import HIDDEN_WEIGHTS, Synthetic, SyntheticConfig

ROWS = (1000, 50, 1)


def source(seed: int = 1, **config) -> Synthetic:
    """Return synthetic samples with the ids of three tables."""
    return Synthetic(SyntheticConfig(**config), ROWS, dense_features=3, seed=seed)


def ids_by_bag(batch) -> list[list[int]]:
    """Return the ids of each bag, by table and then by sample."""
    return [bag.tolist() for bag in batch.ids.split(batch.lengths.reshape(-1).tolist())]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 24, 30])
@pytest.mark.parametrize("config", [{}, {"longest_bag": (20, 1, 3), "shortest_bag": (0, 1, 2)}])
def test_slices_of_ranks_form_the_global_batch(ranks: int, config) -> None:
    whole = source(**config).batch(step=7, start=0, size=24)
    slices = shares(24, ranks)
    parts = [source(**config).batch(step=7, start=share.start, size=share.size) for share in slices]
    assert torch.equal(whole.dense, torch.cat([part.dense for part in parts]))
    assert torch.equal(whole.labels, torch.cat([part.labels for part in parts]))
    assert torch.equal(whole.lengths, torch.cat([part.lengths for part in parts], dim=1))
    bags = [ids_by_bag(part) for part in parts]
    by_feature = [
        bag
        for feature in range(3)
        for share, part in zip(slices, bags, strict=True)
        for bag in part[feature * share.size : (feature + 1) * share.size]
    ]
    assert ids_by_bag(whole) == by_feature


def test_batch_without_samples_is_empty() -> None:
    batch = source().batch(0, 4, 0)
    assert batch.dense.shape == (0, 3)
    assert batch.lengths.shape == (3, 0)
    assert batch.ids.dtype == torch.int64
    assert len(batch.ids) == len(batch.labels) == 0


def test_held_out_samples_follow_the_same_model() -> None:
    assert (source().held_out().id_weights == source().id_weights).all()


def test_held_out_samples_are_not_trained_on() -> None:
    trained = torch.cat([source().batch(step, 0, 100).dense for step in range(5)])
    evaluated = torch.cat([source().held_out().batch(step, 0, 100).dense for step in range(5)])
    assert len(torch.cat([trained, evaluated]).unique(dim=0)) == 1000


@pytest.mark.parametrize(("seed", "step"), [(1, 1), (2, 0)])
def test_samples_of_another_step_or_seed_differ(seed: int, step: int) -> None:
    assert not torch.equal(source(seed=1).batch(0, 0, 8).dense, source(seed).batch(step, 0, 8).dense)


def test_ids_are_rows_of_their_tables_and_follow_zipf_in_bags_of_0_to_4() -> None:
    batch = source().batch(0, 0, 20_000)
    by_feature = batch.ids.split(batch.lengths.sum(dim=1).tolist())
    for ids, rows in zip(by_feature, ROWS, strict=True):
        assert ids.min() >= 0
        assert ids.max() < rows
    share = torch.bincount(by_feature[0], minlength=1000) / len(by_feature[0])
    popular, row = share.sort(descending=True)
    assert popular[0] > 5 * popular[9] > 25 * popular[99] > 0
    assert row[:10].double().std() > 100  # scattered over the table, like those of hashed categories
    assert batch.lengths.unique().tolist() == [0, 1, 2, 3, 4]
    assert batch.lengths.double().mean() == pytest.approx(2, abs=0.1)


def test_tables_can_have_different_distributions() -> None:
    config = SyntheticConfig(zipf_exponent=(0.2, 2.5, 1.05), shortest_bag=(0, 20, 1), longest_bag=(2, 20, 1))
    batch = Synthetic(config, (1000, 1000, 1000), 3, seed=1).batch(0, 0, 3000)
    assert [lengths.unique().tolist() for lengths in batch.lengths] == [[0, 1, 2], [20], [1]]
    mild, steep, _ = batch.ids.split(batch.lengths.sum(dim=1).tolist())
    assert (mild == 0).double().mean() < 0.01
    assert (steep == 0).double().mean() > 0.6
    assert config.pooling(3) == (1, 20, 1)


@pytest.mark.parametrize("longest", [1, 4, 20])
def test_labels_depend_on_ids_and_dense_features(longest: int) -> None:
    model = source(longest_bag=longest)
    batch = model.batch(0, 0, 4000)
    bag = torch.arange(3 * 4000).repeat_interleave(batch.lengths.reshape(-1))
    feature, sample = (bag // 4000).numpy(), (bag % 4000).numpy()
    id_signal = np.bincount(sample, model.id_weights[feature, batch.ids.numpy() % HIDDEN_WEIGHTS], minlength=4000)
    dense_signal = batch.dense.double().numpy() @ model.dense_weights
    clicked = batch.labels.numpy() == 1
    assert 0.05 < clicked.mean() < 0.6
    for signal in (id_signal, dense_signal):  # without a signal the means differ by less than 0.1
        assert signal[clicked].mean() - signal[~clicked].mean() > 0.3


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"zipf_exponent": 1.0}, r"synthetic.zipf_exponent is 1\.0"),
        ({"zipf_exponent": (1.05, -1.0, 2.0)}, r"synthetic.zipf_exponent is -1\.0"),
        ({"longest_bag": (4, 0, 4)}, "synthetic.longest_bag is 0"),
        ({"longest_bag": (4, 4)}, "synthetic.longest_bag is .*: it must be one number, or a list of 3, one for each"),
        ({"shortest_bag": 3, "longest_bag": (4, 2, 4)}, "synthetic.shortest_bag is 3: it must be synthetic.longest"),
        ({"shortest_bag": -1}, "synthetic.shortest_bag is -1"),
    ],
)
def test_invalid_synthetic_value_is_refused_with_its_key(config, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        source(**config)
