"""A check of pooled sums: the first sums that are NaN or infinite are reported on stderr, with table and samples.

It is off by default, because it reads all sums once more, and the CPU waits for a GPU in each step.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from trainer.all_to_all import AllToAll
from trainer.batch import StepBatch, shares
from trainer.exchange import Exchange
from trainer.vectors import ByWidth
from trainer.world import World


@dataclass(frozen=True)
class CheckConfig:
    pooled: bool = False  # report pooled sums that are NaN or infinite, with their table and samples


class CheckedExchange(Exchange):
    """The routes of an exchange, with a check of the sums that arrive. It prints one line, and then checks no more."""

    def __init__(self, exchange: Exchange, dims: Sequence[int], world: World) -> None:
        vars(self).update(vars(exchange))  # instead of a second exchange, whose process groups all ranks would create
        self._dims, self._world = dims, world
        self._step_batch: StepBatch | None = None
        self._is_done = False

    def send_pooled(self, vectors: Sequence[Tensor], step_batch: StepBatch) -> AllToAll:
        """Start to send the pooled vectors of a batch, whose samples the line will name."""
        self._step_batch = step_batch
        return super().send_pooled(vectors, step_batch)

    def merge(self, pooled: AllToAll, replicated: ByWidth) -> Tensor:
        """Wait for the pooled vectors, order them, and check them."""
        merged = super().merge(pooled, replicated)
        if not self._is_done and self._step_batch is not None and not merged.isfinite().all():
            self._is_done = True
            tables = merged.unbind() if merged.dim() == 3 else merged.split(list(self._dims), dim=1)
            not_finite = ", ".join(str(table) for table, sums in enumerate(tables) if not sums.isfinite().all())
            step, rank = self._step_batch.step + 1, self._world.rank
            share = shares(self._step_batch.global_batch, self._world.size)[rank]
            print(
                f"trainer: step {step}: pooled sums of table {not_finite} are NaN or infinite on rank {rank}, in "
                f"samples {share.start} to {share.start + share.size - 1} of the global batch",
                file=sys.stderr,
                flush=True,
            )
        return merged
