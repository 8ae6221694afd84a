"""What computes on the rows of a rank: torch by default, FBGEMM where it is installed."""

import importlib.util
from typing import Protocol

import torch
from torch import Tensor

from trainer.embedding.bags import Bags
from trainer.embedding.config import EmbeddingConfig
from trainer.embedding.torch_kernel import TorchKernel
from trainer.errors import require
from trainer.optimizers import RULES, OptimizerConfig


class Kernel(Protocol):
    """Some rows and their optimizer's state."""

    @property
    def weight(self) -> Tensor:
        """(rows, D), to be written into."""
        ...

    @property
    def state(self) -> Tensor:
        """(rows,), to be written into."""
        ...

    def lookup(self, bags: Bags) -> Tensor:
        """(G, D): the sum of the rows of each of G bags."""
        ...

    def update(self, bags: Bags, gradient: Tensor, learning_rate: float) -> None:
        """One exact update of each row of the bags looked up last, given the gradient (G, D) of their sums."""
        ...


def has_fbgemm() -> bool:
    """Whether FBGEMM's kernels are installed."""
    return importlib.util.find_spec("fbgemm_gpu") is not None


def open_kernel(
    config: EmbeddingConfig, optimizer: OptimizerConfig, num_rows: int, dtype: torch.dtype, device: torch.device
) -> Kernel:
    """As `embedding.kernel` says. Raises ConfigError where FBGEMM is asked for and cannot be had."""
    able = has_fbgemm() and dtype == torch.float32 and num_rows > 0
    if config.kernel == "fbgemm":
        require(has_fbgemm(), "embedding.kernel", "fbgemm", "torch where fbgemm_gpu is not installed")
        require(dtype == torch.float32, "embedding.kernel", "fbgemm", f"torch to compute in {dtype}")
    if config.kernel == "torch" or not able:
        rule = RULES[optimizer.embedding]
        return TorchKernel(num_rows, config.dim, dtype, device, rule, optimizer.embedding_epsilon)
    from trainer.embedding.fbgemm_kernel import FbgemmKernel  # an optional dependency, slow to import

    return FbgemmKernel(num_rows, config.dim, device, optimizer)
