"""What computes on the rows of a rank: plain torch, or FBGEMM's kernels where they are installed."""

import importlib.util
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

_PACKAGE = {"cpu": "fbgemm-gpu-cpu", "cuda": "fbgemm-gpu"}  # that belongs to torch's build for this


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


def open_kernel(
    config: EmbeddingConfig, optimizer: OptimizerConfig, num_rows: int, dtype: torch.dtype, device: torch.device
) -> Kernel:
    """As `embedding.kernel` says. Raises ConfigError where FBGEMM is asked for and cannot be had."""
    if choose(config, dtype, device) == "fbgemm" and num_rows > 0:
        from trainer.embedding.fbgemm_kernel import FbgemmKernel  # takes seconds, for those who want it alone

        return FbgemmKernel(num_rows, config.dim, device, optimizer)
    rule = RULES[optimizer.embedding]
    return TorchKernel(num_rows, config.dim, dtype, device, rule, optimizer.embedding_epsilon)


def choose(config: EmbeddingConfig, dtype: torch.dtype, device: torch.device) -> str:
    """Torch or fbgemm. On processors auto is torch: which is faster differs by machine (docs/dependencies.md)."""
    named = config.kernel == "fbgemm"
    if config.kernel == "torch" or (device.type == "cpu" and not named):
        return "torch"
    unfit = _unfit(config.dim, dtype, device)
    trouble = unfit or _broken(config.dim, device)
    if trouble is None:
        return "fbgemm"
    if named:
        raise ConfigError("embedding.kernel is fbgemm", trouble, "Change it with --set embedding.kernel=torch")
    if not unfit and not device.index:  # one rank of each host speaks: an install is broken for all of a host
        print(f"trainer: torch computes on the tables: {trouble}", file=sys.stderr, flush=True)
    return "torch"


def _unfit(dim: int, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why FBGEMM is not to be had for this, if so."""
    if dtype != torch.float32:
        return f"it updates in float32 and not in {str(dtype).removeprefix('torch.')}"
    if dim % 4:
        return f"it needs embedding.dim to be a multiple of 4, which {dim} is not"
    if importlib.util.find_spec("fbgemm_gpu") is None:
        return f"{_PACKAGE[device.type]} is not installed"
    return None


def _broken(dim: int, device: torch.device) -> str | None:
    """What is wrong with an install, if so: one made for another torch, or for no GPU, is told by an update with it."""
    try:
        with _unlogged():
            from trainer.embedding.fbgemm_kernel import FbgemmKernel

            kernel = FbgemmKernel(1, dim, device, OptimizerConfig(embedding="sgd"))
            kernel.weight.fill_(1.0)
            bags = Bags(*(torch.tensor([number], dtype=torch.int32, device=device) for number in (0, 1)))
            kernel.update(bags, kernel.lookup(bags), 0.5)
            learned = kernel.weight.eq(0.5).all().item()
    except Exception as error:  # whatever a library says that was built for another
        reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
    else:
        if learned:
            return None
        reason = "what it learns is wrong"
    return f"the {_PACKAGE[device.type]} here does not fit torch {torch.__version__} ({reason})"


@contextmanager
def _unlogged() -> Iterator[None]:
    """FBGEMM's own account of what it could not load is a page long."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
