"""All dense parameters in one tensor, all gradients in another, summed over the ranks while backward still runs.

One tensor is one call of the optimizer, and one all-reduce for many layers. The gradients lie in the order in which
backward makes them, in buckets that travel as soon as they are whole (PyTorch DDP, arXiv 2006.15704). Some numbers that
people want to see, and the gradients of replicated tables, ride along.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil

import torch.distributed as dist
from torch import Tensor, nn

from trainer.errors import require
from trainer.model.dense import DenseModel


@dataclass(frozen=True)
class OverlapConfig:
    """What travels while something else is computed. Each can be switched off, to see what it brings."""

    ids: bool = True  # of the next batch, during this one
    pooled: bool = True  # vectors, during the bottom MLP
    gradients: bool = True  # of dense layers and of vectors, during backward
    bucket_bytes: int = 4 << 20  # of dense gradients that travel together: fewer bytes are latency, more are waiting

    def __post_init__(self) -> None:
        require(self.bucket_bytes > 0, "overlap.bucket_bytes", self.bucket_bytes, "1 or more")


class Flat:
    """A dense model's parameters and gradients; the model goes on as before, on slices of them.

    In the gradient some sums come first, then the gradients of replicated tables, then the parameters' in the order of
    backward: from the last layer to the first.
    """

    def __init__(self, model: DenseModel, num_sums: int, replicated: tuple[int, int], overlap: OverlapConfig) -> None:
        """`replicated` is the shape of the replicated tables' weight."""
        parameters = list(reversed(list(model.parameters())))
        sizes = [num_sums, replicated[0] * replicated[1], *(parameter.numel() for parameter in parameters)]
        self._all = parameters[0].detach().new_zeros(sum(sizes))
        self.sums, tables, *gradients = self._all.split(sizes)
        self.replicated = tables.view(replicated)
        self.parameter = nn.Parameter(self._all.new_empty(sum(sizes[2:])))
        self.parameter.grad = self._all[sizes[0] + sizes[1] :]
        places = self.parameter.data.split(sizes[2:])
        for parameter, place, gradient in zip(parameters, places, gradients, strict=True):
            parameter.data = place.copy_(parameter.data.flatten()).view_as(parameter)
            parameter.grad = gradient.view_as(parameter)  # backward adds to a gradient that is there, in place
        self._overlapped = overlap.gradients
        bucket_of = _buckets(sizes, ceil(overlap.bucket_bytes / self._all.element_size()))
        elements: Counter[int] = Counter()
        for size, bucket in zip(sizes, bucket_of, strict=True):
            elements[bucket] += size
        self._buckets = self._all.split(list(elements.values()))
        self._pieces = list(Counter(bucket_of).values())
        self._of_sums, self._of_replicated, *of_parameters = bucket_of
        for parameter, bucket in zip(parameters, of_parameters, strict=True):
            parameter.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._made(bucket))
        self._missing, self._works = list(self._pieces), list[dist.Work | None]()

    def begin(self, sums: Tensor) -> None:
        """Before backward; the sums are known by now."""
        self._all.zero_()
        self.sums.copy_(sums)
        self._missing, self._works = list(self._pieces), []
        self._made(self._of_sums)

    def made_replicated(self) -> None:
        """The gradients of the replicated tables are there."""
        self._made(self._of_replicated)

    def arrive(self) -> None:
        """Wait until all are summed over all ranks."""
        if not self._overlapped:
            self._works = [dist.all_reduce(self._all, async_op=True)]
        for work in self._works:
            if work is not None:
                work.wait()

    def _made(self, bucket: int) -> None:
        self._missing[bucket] -= 1
        if self._overlapped and self._missing[bucket] == 0:
            self._works.append(dist.all_reduce(self._buckets[bucket], async_op=True))


def _buckets(sizes: list[int], least: int) -> list[int]:
    """Which bucket each piece is in: as many pieces on end as make so many elements."""
    bucket, filled, buckets = 0, 0, []
    for size in sizes:
        if filled >= least:
            bucket, filled = bucket + 1, 0
        buckets.append(bucket)
        filled += size
    return buckets
