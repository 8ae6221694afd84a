"""The memory of each group of tables: those that fit are in memory, the others have a cache and a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from trainer.errors import ConfigError
from trainer.kernel import TorchKernel
from trainer.optimizers import OptimizerConfig
from trainer.scale.tier.kernel import TieredKernel


def kernels_on_disk(
    memory: int,
    folder: Path | None,
    optimizer: OptimizerConfig,
    shapes: Sequence[tuple[int, int]],
    dtype: torch.dtype,
    device: torch.device,
) -> dict[int, TorchKernel]:
    """Return the kernels of the groups (rows, D) that do not fit into memory, by their number.

    `memory` are the bytes of `embedding.memory`. Raises ConfigError if there is no place for them, and TierError.
    """
    sizes = [rows * (width + 1) * dtype.itemsize for rows, width in shapes]  # with one number of optimizer state
    if sum(sizes) <= memory:
        return {}
    if folder is None:
        cause = f"the rows of this rank take {sum(sizes):,} bytes"
        next_step = "Use more ranks, or keep rows on a disk with --set embedding.tier.folder=…"
        raise ConfigError(f"embedding.memory is {memory:,} bytes", cause, next_step)
    return {
        number: TieredKernel(optimizer, shapes[number], dtype, device, share, folder)
        for number, share in divided(memory, sizes).items()
    }


def divided(memory: int, sizes: Sequence[int]) -> dict[int, int]:
    """Return the bytes of memory of each group that is not in memory as a whole, by its number.

    Groups that are smaller than an equal share are in memory. The others share what is left in proportion to their
    sizes. Not all groups fit.
    """
    larger = sorted(range(len(sizes)), key=lambda number: sizes[number])
    while sizes[larger[0]] * len(larger) <= memory:
        memory -= sizes[larger.pop(0)]
    of_larger = sum(sizes[number] for number in larger)
    return {number: memory * sizes[number] // of_larger for number in larger}
