"""The embedding tables of one rank: where each table lives, lookup with sum pooling, exact row-wise AdaGrad.

All owned tables lie below each other in one weight matrix, so lookup and update are one call each however
many tables there are (as in FBGEMM's table-batched embedding). A gradient of the size of a table never
exists.

Shapes: R ranks, T owned tables, B samples per rank, D columns, N ids received.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.errors import WorldError, require

Placement = tuple[tuple[int, ...], ...]  # the tables of each rank, by rank


@dataclass(frozen=True)
class EmbeddingConfig:
    rows: tuple[int, ...]  # of each table, one table per sparse feature
    dim: int = 16  # columns, the same for all: the dot interaction multiplies them with each other
    learning_rate: float = 0.05
    epsilon: float = 1e-8  # keeps the first update of a row finite

    def __post_init__(self) -> None:
        require(len(self.rows) > 0, "embedding.rows", self.rows, "at least one table")
        require(min(self.rows) > 0, "embedding.rows", self.rows, "1 or more for each table")
        require(self.dim > 0, "embedding.dim", self.dim, "1 or more")
        require(self.learning_rate > 0, "embedding.learning_rate", self.learning_rate, "above 0")
        require(self.epsilon > 0, "embedding.epsilon", self.epsilon, "above 0")


def place(rows: Sequence[int], ranks: int) -> Placement:
    """Which rank owns which tables: the largest table first, each to the rank with the fewest rows so far.

    Deterministic, so every rank computes the same placement. Raises WorldError when a rank would own none.
    """
    if ranks > len(rows):
        raise WorldError(
            f"{ranks} ranks for {len(rows)} embedding tables",
            "a table lives whole on one rank, so some ranks would own none",
            f"Start at most {len(rows)} ranks, or add tables with --set embedding.rows=…",
        )
    owned: list[list[int]] = [[] for _ in range(ranks)]
    load = [0] * ranks
    for table in sorted(range(len(rows)), key=lambda table: (-rows[table], table)):
        rank = min(range(ranks), key=lambda rank: (load[rank], rank))
        owned[rank].append(table)
        load[rank] += rows[table]
    return tuple(tuple(sorted(tables)) for tables in owned)


class Tables:
    """The tables that one rank owns. Ids arrive by sender, then by owned table, then by sample."""

    def __init__(self, config: EmbeddingConfig, owned: Sequence[int], seed: int, dtype: torch.dtype) -> None:
        rows = [config.rows[table] for table in owned]
        self.config = config
        self.first_row = torch.tensor([0, *accumulate(rows[:-1])])  # of each owned table in `weight`
        self.weight = torch.cat([_initial(config, table, seed) for table in owned]).to(dtype)  # (rows, D)
        self.accumulator = torch.zeros(len(self.weight), dtype=dtype)  # (rows,)

    def rows_of(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Where in `weight` each id's row lies: (N,) ids of (R, T, B) bags → (N,) rows."""
        first_row = self.first_row[None, :, None].expand_as(lengths)
        return ids + first_row.reshape(-1).repeat_interleave(lengths.reshape(-1))

    def lookup(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """The sum of the rows of each bag, 0 for an empty one: (N,) rows of (R, T, B) bags → (R·T·B, D)."""
        lengths = lengths.reshape(-1)
        return F.embedding_bag(rows, self.weight, offsets=lengths.cumsum(0) - lengths, mode="sum")

    def update(self, rows: Tensor, lengths: Tensor, gradient: Tensor) -> None:
        """Row-wise AdaGrad, exact: one update per row, however often the global batch looked it up.

        `gradient` is that of the pooled bags, (R·T·B, D): every row of a bag has the gradient of its sum.
        The accumulator is one scalar per row, the running sum of the mean square of its gradient (arXiv
        2104.05158). Ids of a table arrive in the order of the global batch whatever R is, so the sums below
        are equal to the bit.
        """
        bag_of_id = torch.arange(lengths.numel()).repeat_interleave(lengths.reshape(-1))
        touched, place_of_id = torch.unique(rows, return_inverse=True)
        merged = torch.zeros(len(touched), gradient.shape[1], dtype=gradient.dtype)
        merged.index_add_(0, place_of_id, gradient[bag_of_id])
        self.accumulator[touched] += merged.square().mean(dim=1)
        scale = self.accumulator[touched].sqrt() + self.config.epsilon
        self.weight[touched] -= self.config.learning_rate * merged / scale[:, None]


def _initial(config: EmbeddingConfig, table: int, seed: int) -> Tensor:
    """Initial weights of a table, from a generator of its own so that they do not depend on its owner.

    Uniform within ±1/√rows, as in facebookresearch/dlrm.
    """
    bound = config.rows[table] ** -0.5
    generator = np.random.default_rng([seed, 1, table])  # 1: no other generator has this stream
    return torch.from_numpy(generator.uniform(-bound, bound, (config.rows[table], config.dim)))
