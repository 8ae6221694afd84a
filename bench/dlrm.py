"""The model on which trainers are compared, and its samples, which can be generated before steps are measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from trainer.batch import Batch, shares
from trainer.keys import apply_changes
from trainer.scale.config import RunConfig
from trainer.scale.presets import demo

DENSE_FEATURES = 13
NUM_BATCHES = 16  # global batches, the same for every trainer; they use more rows than caches hold
_COUNTED_BATCHES = 4  # distinct rows are counted in this many batches; batches hardly differ


@dataclass(frozen=True)
class Shape:
    """A model with F equal tables of D columns, pooling factor P, bottom and top MLP; ids are uniformly distributed."""

    pooling: int
    tables: int = 8
    rows: int = 100_000
    dim: int = 64
    global_batch: int = 1024
    bottom: tuple[int, ...] = (512, 256)
    top: tuple[int, ...] = (512, 256)

    def config(self) -> RunConfig:
        """Return the configuration of the trainer; other keys have the values of the preset demo."""
        changes = {
            "embedding": {"rows": [self.rows] * self.tables, "dim": self.dim},
            "model": {"dense_features": DENSE_FEATURES, "bottom": list(self.bottom), "top": list(self.top)},
            "train": {"global_batch": self.global_batch},
            "synthetic": {"shortest_bag": self.pooling, "longest_bag": self.pooling},
        }
        return apply_changes(demo(), [changes])

    def layers(self) -> Iterator[tuple[int, int]]:
        """Yield (in, out) of all matrices, bottom MLP first."""
        pairs = (self.tables + 1) * self.tables // 2
        yield from pairwise((DENSE_FEATURES, *self.bottom, self.dim))
        yield from pairwise((self.dim + pairs, *self.top, 1))


class RepeatingSource:
    """A source that repeats NUM_BATCHES global batches. A slice is generated when first needed, and then stored."""

    num_samples: int | None = None

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._slices: dict[tuple[int, int, int], Batch] = {}

    def held_out(self) -> RepeatingSource:
        """Return the same samples, because the quality of the model does not matter."""
        return self

    def generate(self, rank: int, num_ranks: int) -> None:
        """Generate this rank's share of all batches, so that no later step takes time for it."""
        share = shares(self._shape.global_batch, num_ranks)[rank]
        for step in range(NUM_BATCHES):
            self.batch(step, share.start, share.size)

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Return samples `start` to `start + size` of the global batch of this step."""
        key = (step % NUM_BATCHES, start, size)
        if key not in self._slices:
            self._slices[key] = self._slice(*key)
        return self._slices[key]

    def distinct_rows(self) -> float:
        """Return the mean number of distinct rows, in all tables together, that a global batch looks up."""
        return float(np.mean([sum(len(np.unique(ids)) for ids in self._ids(step)) for step in range(_COUNTED_BATCHES)]))

    def _slice(self, step: int, start: int, size: int) -> Batch:
        shape = self._shape
        draw = np.random.default_rng([2, step])
        dense = draw.standard_normal((shape.global_batch, DENSE_FEATURES), dtype=np.float32)
        labels = (draw.random(shape.global_batch) < 0.25).astype(np.float32)
        ids = self._ids(step)[:, start : start + size]
        return Batch(
            dense=torch.from_numpy(dense[start : start + size].copy()),
            ids=torch.from_numpy(ids.reshape(-1).copy()),
            lengths=torch.full((shape.tables, size), shape.pooling, dtype=torch.int64),
            labels=torch.from_numpy(labels[start : start + size].copy()),
        )

    def _ids(self, step: int) -> np.ndarray:
        """Return the ids of a global batch: (tables, samples, pooling factor)."""
        shape = self._shape
        draw = np.random.default_rng([1, step])
        return draw.integers(shape.rows, size=(shape.tables, shape.global_batch, shape.pooling))
