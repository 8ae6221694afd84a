"""The table shards of this rank: looked up for the samples of all ranks, updated by the gradients of all ranks.

The shards of a group are concatenated in one weight, so lookup and update are one call each for any number of tables
(as in FBGEMM's table-batched embedding). Most plans have one group.

Shapes: G bags of a group, D columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from trainer.errors import require
from trainer.kernel import Bags, Kernel, Precision, TorchKernel
from trainer.optimizers import OptimizerConfig
from trainer.registry import KERNELS, TIERS, WEIGHT_TYPES, Moments
from trainer.sharding import Group, Merge, Shard

_BLOCK_ROWS = 8_192  # initial rows generated at a time; they need a few MB of memory in double precision


@dataclass(frozen=True)
class TierConfig:
    folder: str = ""  # a folder for the rows that do not fit into embedding.memory; empty: all must fit
    folder_is_encrypted: bool = False  # the folder is on an encrypted disk, such as dm-crypt


@dataclass(frozen=True)
class EmbeddingConfig:
    rows: tuple[int, ...]  # rows of each table; one table per sparse feature
    dim: int | tuple[int, ...] = 16  # columns of every table, or of each; model.interaction dot needs equal ones
    dtype: str = ""  # type of the weights of divided tables: bfloat16, float16, or empty: that of train.dtype
    kernel: str = "auto"  # torch, fbgemm, auto (fbgemm on GPUs if it is installed, torch otherwise) or fastest
    memory: int = 0  # bytes that a rank may spend on rows of divided tables; 0: as many as they need
    tier: TierConfig = field(default_factory=TierConfig)

    def __post_init__(self) -> None:
        require(len(self.rows) > 0, "embedding.rows", self.rows, "at least one table")
        require(min(self.rows) > 0, "embedding.rows", self.rows, "1 or more for each table")
        require(max(self.rows) < 2**31, "embedding.rows", max(self.rows), "below 2^31: ids are sent in 32 bits")
        must = f"one number, or a list of {len(self.rows)}, one for each table"
        require(len(self.dims) == len(self.rows), "embedding.dim", self.dim, must)
        require(min(self.dims) > 0, "embedding.dim", self.dim, "1 or more")
        must = " or ".join(("empty", *WEIGHT_TYPES))
        require(self.dtype in ("", *WEIGHT_TYPES), "embedding.dtype", self.dtype, must)
        require(self.kernel in KERNELS, "embedding.kernel", self.kernel, " or ".join(KERNELS))
        must = "0 (no limit) or more" if TIERS else "0 (no limit) without trainer/scale"
        require(self.memory == 0 or (bool(TIERS) and self.memory > 0), "embedding.memory", self.memory, must)

    @property
    def dims(self) -> tuple[int, ...]:
        """The columns of each table."""
        return (self.dim,) * len(self.rows) if isinstance(self.dim, int) else self.dim


class ShardedTables:
    """The table shards of one rank, in groups."""

    def __init__(
        self,
        config: EmbeddingConfig,
        optimizer: OptimizerConfig,
        groups: Sequence[Group],
        moments: Moments | None,
        seed: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """`moments` are to be shared by the ranks that have columns of one table; None: no table needs it."""
        self._groups, self._moments = groups, moments
        self._num_rows = [[shard.num_rows for shard in group.shards] for group in groups]
        self._kernels: list[Kernel] = []
        self._sharing: list[tuple[int, TorchKernel]] = []  # groups whose moments are shared; FBGEMM cannot do this
        rounded = WEIGHT_TYPES.get(config.dtype)
        weights = [
            ((sum(num_rows), group.width), rounded(dtype, seed, group, device) if rounded else Precision(dtype))
            for num_rows, group in zip(self._num_rows, groups, strict=True)
        ]
        limit, folder = config.memory, config.tier.folder
        self.on_disk = TIERS["file"](limit, folder, optimizer, weights, device) if limit else {}  # by group
        for number, group in enumerate(groups):
            shares_moments = moments is not None and group.merge is Merge.COLUMNS
            opened = TorchKernel if shares_moments else KERNELS[config.kernel]
            kernel = self.on_disk.get(number) or opened(optimizer, *weights[number], device)
            if shares_moments and isinstance(kernel, TorchKernel):
                self._sharing.append((number, kernel))
            self._kernels.append(kernel)
        for shard, kernel, first in self.locate():
            for block in initial_rows(seed, shard, config.rows[shard.table], config.dims[shard.table]):
                kernel.write(first, block)
                first += len(block)

    def begin(self, step: int, learning_rate: float) -> None:
        """Begin a step with one lookup and one update, which has this learning rate."""
        for kernel in self._kernels:
            kernel.begin(step, learning_rate)

    def prefetch(self, bags: Sequence[Bags]) -> None:
        """Begin to read the rows of the next lookup from the disk. The rows of the last one stay until their update."""
        for number, kernel in self.on_disk.items():
            kernel.prefetch(bags[number])

    def lookup(self, bags: Sequence[Bags]) -> list[Tensor]:
        """Return the sum of the rows of each bag (G, D), by group."""
        return [kernel.lookup(group_bags) for kernel, group_bags in zip(self._kernels, bags, strict=True)]

    def update(self, bags: Sequence[Bags], gradients: Sequence[Tensor], learning_rate: float) -> None:
        """Update each row of the last lookup once and exactly, given the gradients (G, D) of the sums, by group."""
        merged = [kernel.merge(bags[number], gradients[number]) for number, kernel in self._sharing]
        exchange = self._moments.send([gradient for _, gradient in merged]) if self._moments is not None else None
        sharing = {number for number, _ in self._sharing}
        for number, kernel in enumerate(self._kernels):
            if number not in sharing:
                kernel.update(bags[number], gradients[number], learning_rate)
        if exchange is not None:
            for (_, sharer), table, mean_squares in zip(self._sharing, merged, exchange.wait(), strict=True):
                sharer.apply(table, learning_rate, mean_squares)

    def parts(self) -> Iterator[tuple[Shard, Tensor, Tensor]]:
        """Yield each shard with its weight (rows, D) and its optimizer state (rows,): views, or copies from a disk."""
        for shard, kernel, first in self.locate():
            yield shard, *kernel.read(first, shard.num_rows)

    def locate(self) -> Iterator[tuple[Shard, Kernel, int]]:
        """Yield each shard with the kernel that has its rows, and the place of its first row in the kernel."""
        for group, kernel, num_rows in zip(self._groups, self._kernels, self._num_rows, strict=True):
            for shard, first in zip(group.shards, accumulate(num_rows, initial=0), strict=False):
                yield shard, kernel, first


def initial_rows(seed: int, shard: Shard, num_rows: int, dim: int) -> Iterator[Tensor]:
    """Yield the initial weight of a shard of a table of `num_rows` and `dim` columns, in blocks of rows.

    The values are uniform within ±1/√rows, as in facebookresearch/dlrm. Each table has its own generator, which can
    jump to any row because it draws one number for each element.
    """
    bound = num_rows**-0.5
    bits = np.random.PCG64(np.random.SeedSequence([seed, 1, shard.table]))  # 1: a stream that no other generator uses
    generator = np.random.Generator(bits.advance(shard.first_row * dim))
    for first in range(0, shard.num_rows, _BLOCK_ROWS):
        size = min(_BLOCK_ROWS, shard.num_rows - first), dim
        values = torch.from_numpy(generator.uniform(-bound, bound, size))
        yield values.narrow(1, shard.first_column, shard.num_columns)
