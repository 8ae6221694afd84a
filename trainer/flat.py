"""All dense parameters in one tensor, all gradients in another, all-reduced while backward still runs.

One tensor means one call of the optimizer, and one all-reduce for many layers. The gradients lie in the order in which
backward computes them, in buckets that are all-reduced as soon as they are complete (PyTorch DDP, arXiv 2006.15704).
Some sums for the progress report, and the gradients of replicated tables, are part of the same tensor.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import torch.distributed as dist
from torch import Tensor, nn

from trainer.dense import DenseModel
from trainer.errors import require


@dataclass(frozen=True)
class OverlapConfig:
    """The communication that overlaps with computation. Each part can be switched off to measure its effect."""

    ids: bool = True  # send the ids of the next batch while this one is computed
    pooled: bool = True  # receive pooled vectors while the bottom MLP is computed
    gradients: bool = True  # send gradients of dense layers and of pooled vectors while backward runs
    bucket_bytes: int = 4 << 20  # dense gradients of one all-reduce: fewer bytes cost latency, more cost waiting

    def __post_init__(self) -> None:
        require(self.bucket_bytes > 0, "overlap.bucket_bytes", self.bucket_bytes, "1 or more")


class FlatParameters:
    """The parameters and gradients of a dense model. The parameters of the model become views of the flat tensors.

    The gradient tensor begins with some sums. The gradients of replicated tables follow, then the gradients of the
    parameters in the order of backward: from the last layer to the first.
    """

    def __init__(self, model: DenseModel, num_sums: int, num_replicated: int, overlap: OverlapConfig) -> None:
        """`num_replicated` is the number of weights of the replicated tables."""
        parameters = list(reversed(list(model.parameters())))
        parameter_sizes = [parameter.numel() for parameter in parameters]
        sizes = [num_sums, num_replicated, *parameter_sizes]
        self._all = parameters[0].detach().new_zeros(sum(sizes))
        self.sums, self.replicated, *gradients = self._all.split(sizes)
        self.parameter = nn.Parameter(self._all.new_empty(sum(parameter_sizes)))
        self.parameter.grad = self._all[num_sums + num_replicated :]
        slices = self.parameter.data.split(parameter_sizes)
        for parameter, values, gradient in zip(parameters, slices, gradients, strict=True):
            parameter.data = values.copy_(parameter.data.flatten()).view_as(parameter)
            parameter.grad = gradient.view_as(parameter)  # backward adds to an existing gradient in place
        self._overlaps = overlap.gradients
        bucket_of = _assign_buckets(sizes, ceil(overlap.bucket_bytes / self._all.element_size()))
        self._buckets = self._all.split(np.bincount(bucket_of, weights=sizes).astype(np.int64).tolist())
        self._pieces_per_bucket: list[int] = np.bincount(bucket_of).tolist()
        self._num_incomplete = list(self._pieces_per_bucket)  # pieces of each bucket, in this step
        self._all_reduces: list[dist.Work | None] = []  # of this step
        self._sums_bucket, self._replicated_bucket, *parameter_buckets = bucket_of
        for parameter, bucket in zip(parameters, parameter_buckets, strict=True):
            parameter.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._complete(bucket))

    def begin(self, sums: Tensor) -> None:
        """Set all gradients to zero and copy the sums. To be called before backward."""
        self._all.zero_()
        self.sums.copy_(sums)
        self._num_incomplete = list(self._pieces_per_bucket)
        self._all_reduces = []
        self._complete(self._sums_bucket)

    def replicated_ready(self) -> None:
        """Mark the gradients of the replicated tables as complete."""
        self._complete(self._replicated_bucket)

    def wait(self) -> None:
        """Wait until all gradients and sums are all-reduced."""
        if not self._overlaps:
            self._all_reduces = [dist.all_reduce(self._all, async_op=True)]
        for all_reduce in self._all_reduces:
            if all_reduce is not None:
                all_reduce.wait()

    def _complete(self, bucket: int) -> None:
        """Count one more complete piece of a bucket. The last one starts the all-reduce of the bucket."""
        self._num_incomplete[bucket] -= 1
        if self._overlaps and self._num_incomplete[bucket] == 0:
            self._all_reduces.append(dist.all_reduce(self._buckets[bucket], async_op=True))


def _assign_buckets(sizes: list[int], min_elements: int) -> list[int]:
    """Return the bucket of each piece. A bucket has consecutive pieces, until they have `min_elements` or more."""
    buckets: list[int] = []
    bucket = num_elements = 0
    for size in sizes:
        if num_elements >= min_elements:
            bucket += 1
            num_elements = 0
        buckets.append(bucket)
        num_elements += size
    return buckets
