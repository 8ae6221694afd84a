"""Synthetic samples that can be learned: Zipf ids, bags of varying length, labels from a hidden logistic model.

A sample is computed from a fixed number of uniform random numbers. They come from a counter-based generator (Philox,
doi 10.1145/2063384.2063405), keyed by seed and step. It can jump to any sample, so a rank generates only its own slice
of the global batch.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from trainer.batch import Batch
from trainer.errors import require

HIDDEN_WEIGHTS = 1024  # per feature, for ids modulo this number, so that memory does not grow with the tables
DENSE_SIGNAL = 1.0  # standard deviation of the logit that the dense features explain
SPARSE_SIGNAL = 1.5  # standard deviation of the logit that the ids explain
BIAS = -1.0  # bias of the logit; popular ids shift it further, depending on the seed
SCATTER = 2_654_435_761  # a prime above every number of rows, so that no two ids collide (Knuth, TAOCP 3, 6.4)
TRAIN, HELD_OUT = 0, 1  # the highest word of the generator's counter, so that the two streams never overlap


@dataclass(frozen=True)
class SyntheticConfig:
    """The distribution of ids. Each value is one number for all tables, or a list with a number for each table."""

    zipf_exponent: float | tuple[float, ...] = 1.05  # exponent of the Zipf distribution of the ids
    shortest_bag: int | tuple[int, ...] = 0  # minimum ids of a bag; the number is uniform up to longest_bag
    longest_bag: int | tuple[int, ...] = 4  # maximum ids of a bag

    def __post_init__(self) -> None:
        for exponent in np.atleast_1d(self.zipf_exponent).tolist():
            require(exponent > 0 and exponent != 1, "synthetic.zipf_exponent", exponent, "above 0 and not 1")
        for bag in np.atleast_1d(self.shortest_bag).tolist():
            require(bag >= 0, "synthetic.shortest_bag", bag, "0 or more")
        for bag in np.atleast_1d(self.longest_bag).tolist():
            require(bag > 0, "synthetic.longest_bag", bag, "1 or more")

    def of_tables(self, num_tables: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Return exponent, shortest and longest bag of each table. Raises ConfigError if they do not fit."""
        exponents = _of_tables("synthetic.zipf_exponent", self.zipf_exponent, num_tables)
        shortest = _of_tables("synthetic.shortest_bag", self.shortest_bag, num_tables)
        longest = _of_tables("synthetic.longest_bag", self.longest_bag, num_tables)
        fits = bool((shortest <= longest).all())
        require(fits, "synthetic.shortest_bag", self.shortest_bag, "synthetic.longest_bag or less in each table")
        return exponents, shortest, longest

    def pooling(self, num_tables: int) -> tuple[float, ...]:
        """Return the mean pooling factor of each table: ids of a sample."""
        _, shortest, longest = self.of_tables(num_tables)
        return tuple(((shortest + longest) / 2).tolist())


def _of_tables(key: str, value: Any, num_tables: int) -> NDArray[Any]:
    values = np.array(value)
    fits = values.shape in ((), (num_tables,))
    require(fits, key, value, f"one number, or a list of {num_tables}, one for each table")
    return np.broadcast_to(values, num_tables)


class _Zipf(NamedTuple):
    """The distribution of the ids of a table: the continuous form of Zipf's law.

    The k-th most popular id has the share ∫ x^-exponent dx from k + 1 to k + 2. The inverse is a formula.
    """

    rows: int
    exponent: float

    def ids(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return ids in 0 … rows - 1. Popular ids are scattered over the table, as with hashed categories."""
        power = 1 - self.exponent
        x = (1 + uniform * ((self.rows + 1.0) ** power - 1)) ** (1 / power)  # in [1, rows + 1)
        popularity = np.minimum(x.astype(np.int64), self.rows) - 1  # rounding can reach rows + 1
        scattered: NDArray[np.int64] = popularity * SCATTER % self.rows
        return scattered


class Synthetic:
    """A source whose samples are a pure function of seed, step and position in the global batch.

    Shapes: B samples, F features.
    """

    num_samples: int | None = None

    def __init__(
        self, config: SyntheticConfig, rows: tuple[int, ...], dense_features: int, seed: int, stream: int = TRAIN
    ) -> None:
        exponents, self.shortest, longest = config.of_tables(len(rows))
        self.arguments = config, rows, dense_features, seed
        self.seed, self.stream = seed, stream
        self.zipf = [_Zipf(*table) for table in zip(rows, exponents.tolist(), strict=True)]
        self.num_lengths = longest - self.shortest + 1  # possible lengths of a bag
        # The random words of a sample: for its dense features, the lengths of its bags, its label, and its ids.
        self.part_ends = np.cumsum([dense_features, len(rows), 1, longest.sum()])
        self.bag_ends = np.cumsum(longest)[:-1]  # within the words for ids
        # Philox counts blocks of eight words of 32 bits.
        self.blocks_per_sample = -(-int(self.part_ends[-1]) // 8)

        hidden = np.random.default_rng([seed, 3])  # 3: a stream that no other generator uses
        self.dense_weights = hidden.normal(0, DENSE_SIGNAL / dense_features**0.5, dense_features)
        ids_per_sample = sum(config.pooling(len(rows)))
        self.id_weights = hidden.normal(0, SPARSE_SIGNAL / ids_per_sample**0.5, (len(rows), HIDDEN_WEIGHTS))

    def held_out(self) -> "Synthetic":
        """Return other samples of the same hidden model."""
        return Synthetic(*self.arguments, stream=HELD_OUT)

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Return samples `start` to `start + size` of the global batch of this step."""
        words = self._words(step, start, size)
        for_dense, for_lengths, for_label, for_ids, _ = np.split(words, self.part_ends, axis=1)
        dense = (_uniform(for_dense) - 0.5) * 12**0.5  # mean 0, variance 1
        more_ids = (_uniform(for_lengths.T) * self.num_lengths[:, None]).astype(np.int64)
        lengths = self.shortest[:, None] + more_ids  # (F, B)

        ids, signals = [], []
        for feature, for_bags in enumerate(np.split(for_ids, self.bag_ends, axis=1)):
            is_used = np.arange(for_bags.shape[1]) < lengths[feature, :, None]
            ids.append(self.zipf[feature].ids(_uniform(for_bags[is_used])))
            signals.append(self.id_weights[feature].take(ids[-1] % HIDDEN_WEIGHTS))
        sample = np.repeat(np.tile(np.arange(size), len(lengths)), lengths.reshape(-1))  # the sample of each id
        logits = BIAS + np.bincount(sample, np.concatenate(signals), minlength=size)
        logits += (dense * self.dense_weights).sum(axis=1)
        labels = _uniform(for_label[:, 0]) < 1 / (1 + np.exp(-logits))
        return Batch(
            dense=torch.from_numpy(dense.astype(np.float32)),
            ids=torch.from_numpy(np.concatenate(ids)),
            lengths=torch.from_numpy(lengths),
            labels=torch.from_numpy(labels.astype(np.float32)),
        )

    def _words(self, step: int, start: int, size: int) -> NDArray[np.uint32]:
        """Return the random 32-bit words of these samples, one row per sample."""
        key = np.array([self.seed, step], dtype=np.uint64)
        generator = np.random.Philox(counter=[0, 0, 0, self.stream], key=key)
        generator.advance(start * self.blocks_per_sample)
        words = generator.random_raw(size * self.blocks_per_sample * 4)
        return words.view(np.uint32).reshape(size, self.blocks_per_sample * 8)


def _uniform(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Convert random words to numbers in [0, 1)."""
    numbers: NDArray[np.float64] = np.multiply(words, 2.0**-32, dtype=np.float64)
    return numbers
