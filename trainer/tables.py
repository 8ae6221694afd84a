"""The table shards of this rank. It looks them up for the samples of all ranks, and updates them by all gradients.

The shards of a group are concatenated in one weight, so lookup and update are one call each for any number of tables
(as in FBGEMM's table-batched embedding). Most plans have one group.

Shapes: G bags of a group, D columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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
    dim: int | tuple[int, ...] = 16  # columns of all tables, or a list by table; equal ones if model.interaction is dot
    dtype: str = ""  # type of the weights of sharded tables: bfloat16 or float16; empty: train.dtype
    kernel: str = "auto"  # torch, fbgemm, auto (fbgemm on GPUs if installed, else torch), fastest (as measured)
    memory: int = 0  # bytes that a rank may spend on rows of sharded tables; 0: as many as they need
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
        """`moments` is the exchange for tables whose columns are on several ranks; None: no table needs it."""
        self._groups = groups
        self._moments = moments
        open_precision = WEIGHT_TYPES.get(config.dtype)
        weights = []  # shape (rows, D) and precision of the weight of each group
        for group in groups:
            shape = sum(shard.num_rows for shard in group.shards), group.width
            weights.append((shape, open_precision(dtype, seed, group, device) if open_precision else Precision(dtype)))
        memory, folder = config.memory, config.tier.folder
        self.on_disk = TIERS["file"](memory, folder, optimizer, weights, device) if memory else {}  # by group
        self._kernels: list[Kernel] = []  # by group
        self._shared: dict[int, TorchKernel] = {}  # by group, the kernels with shared moments; FBGEMM cannot share them
        for index, group in enumerate(groups):
            shares_moments = moments is not None and group.merge is Merge.COLUMNS
            open_kernel = TorchKernel if shares_moments else KERNELS[config.kernel]
            kernel = self.on_disk.get(index) or open_kernel(optimizer, *weights[index], device)
            if shares_moments and isinstance(kernel, TorchKernel):
                self._shared[index] = kernel
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
        """Begin to read rows of the next lookup from the disk. The rows of the last lookup stay until their update."""
        for index, kernel in self.on_disk.items():
            kernel.prefetch(bags[index])

    def lookup(self, bags: Sequence[Bags]) -> list[Tensor]:
        """Return the sum of the rows of each bag (G, D), by group."""
        return [kernel.lookup(group_bags) for kernel, group_bags in zip(self._kernels, bags, strict=True)]

    def update(self, bags: Sequence[Bags], gradients: Sequence[Tensor], learning_rate: float) -> None:
        """Update each row of the last lookup once and exactly, given the gradients (G, D) of the sums, by group."""
        merged = [kernel.merge(bags[index], gradients[index]) for index, kernel in self._shared.items()]
        exchange = self._moments.send([gradient for _, gradient in merged]) if self._moments is not None else None
        for index, kernel in enumerate(self._kernels):  # while the squares of shared moments are in flight
            if index not in self._shared:
                kernel.update(bags[index], gradients[index], learning_rate)
        if exchange is not None:
            for shared, rows, mean_squares in zip(self._shared.values(), merged, exchange.wait(), strict=True):
                shared.apply(rows, learning_rate, mean_squares)

    def weights_and_states(self) -> Iterator[tuple[Shard, Tensor, Tensor]]:
        """Yield each shard, its weight (rows, D) and its optimizer state (rows, …): views, or copies from a disk."""
        for shard, kernel, first in self.locate():
            yield shard, *kernel.read(first, shard.num_rows)

    def locate(self) -> Iterator[tuple[Shard, Kernel, int]]:
        """Yield each shard with the kernel that has its rows, and the place of its first row in the kernel."""
        for group, kernel in zip(self._groups, self._kernels, strict=True):
            first = 0
            for shard in group.shards:
                yield shard, kernel, first
                first += shard.num_rows


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
