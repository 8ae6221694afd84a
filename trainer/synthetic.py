"""Samples out of thin air, with a signal in them: Zipf ids, bags of varying length, a hidden logistic model.

A sample is a fixed number of uniform random numbers, and all the rest is arithmetic. They come from a
counter-based generator (Philox, doi 10.1145/2063384.2063405) keyed by seed and step, which can be set to
any sample at once: a rank makes its own slice of the global batch and nothing else.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from trainer.batch import Batch
from trainer.errors import require

HIDDEN_WEIGHTS = 1009  # per feature; ids equal modulo this share one, so memory does not grow with the tables
DENSE_SIGNAL = 1.0  # standard deviation of the logit that the dense features explain
SPARSE_SIGNAL = 1.5  # and of that which the ids explain
BIAS = -1.0  # of the logit; what the popular ids add to it depends on the seed


@dataclass(frozen=True)
class SyntheticConfig:
    zipf_exponent: float = 1.05  # of the ids' popularity
    longest_bag: int = 4  # ids per feature and sample: uniform from 0 to this

    def __post_init__(self) -> None:
        exponent = self.zipf_exponent
        require(exponent > 0 and exponent != 1, "synthetic.zipf_exponent", exponent, "above 0 and not 1")
        require(self.longest_bag > 0, "synthetic.longest_bag", self.longest_bag, "1 or more")


class Synthetic:
    """A source whose samples are a pure function of seed, step and place in the global batch."""

    def __init__(self, config: SyntheticConfig, rows: tuple[int, ...], dense_features: int, seed: int) -> None:
        self.longest_bag = config.longest_bag
        self.exponent = config.zipf_exponent
        self.rows = np.array(rows)[:, None]
        self.seed = seed
        self.parts = np.cumsum([dense_features, len(rows), len(rows) * config.longest_bag])
        self.blocks = -(-(int(self.parts[-1]) + 1) // 4)  # of a sample: Philox counts blocks of four numbers

        hidden = np.random.default_rng([seed, 3])  # 3: no other generator has this stream
        self.dense_weights = hidden.normal(0, DENSE_SIGNAL / dense_features**0.5, dense_features)
        ids_per_sample = len(rows) * config.longest_bag / 2
        self.id_weights = hidden.normal(0, SPARSE_SIGNAL / ids_per_sample**0.5, (len(rows), HIDDEN_WEIGHTS))

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Samples `start` to `start + size` of the global batch of this step."""
        for_dense, for_lengths, for_ids, for_label = np.split(self._uniform(step, start, size), self.parts, axis=1)
        features = len(self.rows)
        dense = (for_dense - 0.5) * 12**0.5  # mean 0, variance 1
        lengths = (for_lengths * (self.longest_bag + 1)).astype(np.int64)
        ids = self._zipf(for_ids.reshape(size, features, self.longest_bag))
        there = np.arange(self.longest_bag) < lengths[:, :, None]

        id_weights = self.id_weights[np.arange(features)[:, None], ids % HIDDEN_WEIGHTS]
        logits = BIAS + dense @ self.dense_weights + (id_weights * there).sum(axis=(1, 2))
        labels = for_label[:, 0] < 1 / (1 + np.exp(-logits))
        return Batch(
            dense=torch.from_numpy(dense.astype(np.float32)),
            ids=torch.from_numpy(ids.swapaxes(0, 1)[there.swapaxes(0, 1)]),
            lengths=torch.from_numpy(np.ascontiguousarray(lengths.T)),
            labels=torch.from_numpy(labels.astype(np.float32)),
        )

    def _uniform(self, step: int, start: int, size: int) -> NDArray[np.float64]:
        """The numbers in [0, 1) that these samples are made of, a row per sample."""
        generator = np.random.Philox(key=np.array([self.seed, step], dtype=np.uint64))
        generator.advance(start * self.blocks)
        words = generator.random_raw(size * self.blocks * 4).reshape(size, -1)
        return (words[:, : self.parts[-1] + 1] >> 11) * 2.0**-53  # a double has 53 bits

    def _zipf(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Ids in 0 … rows - 1, small ones popular: id k has the share ∫ x^-exponent dx from k + 1 to k + 2.

        The continuous form of Zipf's law, because its inverse is a formula and needs no table per feature.
        """
        power = 1 - self.exponent
        x = (1 + uniform * ((self.rows + 1.0) ** power - 1)) ** (1 / power)  # in [1, rows + 1)
        return np.minimum(x.astype(np.int64), self.rows) - 1  # rounding can reach rows + 1
