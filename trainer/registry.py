"""The extensions of the core: kinds of sharding, kernels, types of weights, rows on a disk, exchanges inside a step.

The core itself has two kinds and one kernel; `trainer/scale/__init__.py` registers the others. Importing this file does
not import torch, so that a dry run works without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from trainer.sharding import DataParallel, Group, Kind, Merge, Shard, TableWise

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from trainer.kernel import Kernel, Precision, TorchKernel
    from trainer.optimizers import OptimizerConfig
    from trainer.world import World

    Shape = tuple[int, int]  # rows, D
    OpenKernel = Callable[[OptimizerConfig, Shape, Precision, torch.device], Kernel]
    # (type of computation, seed, shards, device) → how the weights of these shards are stored
    OpenWeightType = Callable[[torch.dtype, int, Group, torch.device], Precision]
    Weights = Sequence[tuple[Shape, Precision]]  # of each group
    # (bytes of memory, folder, optimizer, weights, device) → kernels of the groups that do not fit, by index
    OpenTier = Callable[[int, str, OptimizerConfig, Weights, torch.device], Mapping[int, TorchKernel]]


class HostSums(Protocol):
    """The sums of vectors inside a host, for shards of `Merge.HOST`."""

    def is_partner(self, shard: Shard, rank: int) -> bool:
        """Return True if the rank of a shard exchanges vectors with the samples of `rank`."""

    def reduce(self, vectors: Tensor, num_tables: int, samples: Sequence[int]) -> Tensor:
        """Add up the vectors of this host for the samples that it exchanges vectors with."""

    def gather(self, gradient: Tensor, num_tables: int, samples: Sequence[int]) -> Tensor:
        """Return the gradients for the samples of all ranks, the reverse of `reduce`."""


class Moments(Protocol):
    """The mean squares of rows whose columns several ranks hold, for shards of `Merge.COLUMNS`."""

    def send(self, gradients: Sequence[Tensor]) -> MomentsInFlight:
        """Start to send the squares of the gradients (rows, local columns) of each local table."""


class MomentsInFlight(Protocol):
    """The squares of a step, on their way between the ranks."""

    def wait(self) -> list[Tensor]:
        """Wait for the squares of all ranks and return the mean squares (rows,) of each local table."""


def _torch_kernel(optimizer: OptimizerConfig, shape: Shape, precision: Precision, device: torch.device) -> Kernel:
    from trainer.kernel import TorchKernel

    return TorchKernel(optimizer, shape, precision, device)


KINDS: dict[str, Kind] = {kind.name: kind for kind in (TableWise(), DataParallel())}
KERNELS: dict[str, OpenKernel] = {"auto": _torch_kernel, "torch": _torch_kernel}  # by embedding.kernel
# The core has none of these:
WEIGHT_TYPES: dict[str, OpenWeightType] = {}  # by embedding.dtype
TIERS: dict[str, OpenTier] = {}  # `file`, for embedding.memory
HOST_SUMS: dict[Merge, Callable[[Sequence[Shard], World], HostSums]] = {}
MOMENTS: dict[Merge, Callable[[Sequence[Shard], Sequence[int], World, torch.dtype], Moments]] = {}
