"""Synthetic samples: the same from everywhere, popular ids popular, a signal that can be learned."""

import pytest
import torch

from trainer.errors import ConfigError
from trainer.synthetic import Synthetic, SyntheticConfig

ROWS = (1000, 50, 1)


def source(seed: int = 1) -> Synthetic:
    return Synthetic(SyntheticConfig(), ROWS, dense_features=3, seed=seed)


def ids_by_bag(batch) -> list[list[int]]:
    return [bag.tolist() for bag in batch.ids.split(batch.lengths.reshape(-1).tolist())]


def test_slices_are_parts_of_the_same_global_batch() -> None:
    whole = source().batch(step=7, start=0, size=24)
    parts = [source().batch(step=7, start=start, size=8) for start in (0, 8, 16)]
    assert torch.equal(whole.dense, torch.cat([part.dense for part in parts]))
    assert torch.equal(whole.labels, torch.cat([part.labels for part in parts]))
    assert torch.equal(whole.lengths, torch.cat([part.lengths for part in parts], dim=1))
    bags = [ids_by_bag(part) for part in parts]
    by_feature = [bag for feature in range(3) for part in bags for bag in part[feature * 8 : feature * 8 + 8]]
    assert ids_by_bag(whole) == by_feature


def test_steps_and_seeds_differ() -> None:
    dense = source().batch(0, 0, 8).dense
    assert not torch.equal(dense, source().batch(1, 0, 8).dense)
    assert not torch.equal(dense, source(seed=2).batch(0, 0, 8).dense)


def test_ids_are_rows_of_their_tables_and_follow_zipf() -> None:
    batch = source().batch(0, 0, 20_000)
    of_feature = batch.ids.split(batch.lengths.sum(dim=1).tolist())
    for ids, rows in zip(of_feature, ROWS, strict=True):
        assert ids.min() >= 0
        assert ids.max() < rows
    share = torch.bincount(of_feature[0], minlength=1000) / len(of_feature[0])
    assert share[0] > 5 * share[9] > 25 * share[99] > 0


def test_bags_vary_and_some_are_empty() -> None:
    lengths = source().batch(0, 0, 1000).lengths
    assert lengths.unique().tolist() == [0, 1, 2, 3, 4]
    assert lengths.double().mean() == pytest.approx(2, abs=0.1)


def test_configuration_names_its_key() -> None:
    with pytest.raises(ConfigError, match=r"synthetic.zipf_exponent is 1\.0"):
        SyntheticConfig(zipf_exponent=1.0)
