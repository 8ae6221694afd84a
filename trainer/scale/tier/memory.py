"""The memory of each group of tables: groups that fit are in memory, other groups have a cache and a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from trainer.errors import ConfigError
from trainer.kernel import Precision
from trainer.optimizers import OptimizerConfig
from trainer.scale.tier.kernel import TieredKernel, record_of


def kernels_on_disk(
    memory: int,
    folder: str,
    optimizer: OptimizerConfig,
    weights: Sequence[tuple[tuple[int, int], Precision]],
    device: torch.device,
) -> dict[int, TieredKernel]:
    """Return the kernels of the groups that do not fit into memory, by the index of the group in `weights`.

    `memory` is `embedding.memory`, in bytes. Raises ConfigError if there is no place for the rows, and TierError.
    """
    sizes = [rows * record_of(width, precision, optimizer).itemsize for (rows, width), precision in weights]
    if sum(sizes) <= memory:
        return {}
    if not folder:
        cause = f"the rows of this rank take {sum(sizes):,} bytes"
        next_step = "Use more ranks, or keep rows on a disk with --set embedding.tier.folder=…"
        raise ConfigError(f"embedding.memory is {memory:,} bytes", cause, next_step)
    return {
        index: TieredKernel(optimizer, *weights[index], device, num_bytes, Path(folder))
        for index, num_bytes in divide_memory(memory, sizes).items()
    }


class CacheNote:
    """The note about the cache of this rank in a line of progress; it warns once if the cache is too small."""

    def __init__(self, kernels: Sequence[TieredKernel], warn: Callable[[str], None]) -> None:
        self._kernels, self._warn = kernels, warn
        self._rows_claimed = self._rows_from_disk = 0  # at the last call
        self._has_warned = False

    def __call__(self) -> str:
        """Return the share of rows that were in memory since the last call, and of slots that are locked."""
        rows_claimed = sum(kernel.rows_claimed for kernel in self._kernels)
        rows_from_disk = sum(kernel.rows_from_disk for kernel in self._kernels)
        num_rows, num_from_disk = rows_claimed - self._rows_claimed, rows_from_disk - self._rows_from_disk
        self._rows_claimed, self._rows_from_disk = rows_claimed, rows_from_disk
        if any(kernel.is_too_small for kernel in self._kernels) and not self._has_warned:
            self._has_warned = True
            self._warn(
                "embedding.memory is less than the rows of two batches need, so steps wait for the disk. Raise it, or"
                " use more ranks or a smaller train.global_batch"
            )
        locked = max(kernel.locked_ratio for kernel in self._kernels)
        in_memory = f"{1 - num_from_disk / num_rows:.1%}" if num_rows else "unknown"
        return f"rows in memory {in_memory}  locked {locked:.0%}"


def divide_memory(memory: int, sizes: Sequence[int]) -> dict[int, int]:
    """Return the bytes of memory of each group that is not in memory as a whole, by its index in `sizes`.

    Groups that are smaller than an equal share are in memory. The other groups divide the rest of the memory in
    proportion to their sizes. The sum of all sizes is more than the memory.
    """
    remaining = sorted(range(len(sizes)), key=lambda group: sizes[group])  # the smallest group first
    while sizes[remaining[0]] * len(remaining) <= memory:
        memory -= sizes[remaining.pop(0)]
    total = sum(sizes[group] for group in remaining)
    return {group: memory * sizes[group] // total for group in remaining}
