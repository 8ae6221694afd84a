"""The kernel that computes on the rows of a rank: plain torch, or FBGEMM if it is installed."""

import importlib.util
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from trainer.errors import ConfigError
from trainer.kernel import Bags, Kernel, Precision, TorchKernel
from trainer.optimizers import OptimizerConfig

_PACKAGE = {"cpu": "fbgemm-gpu-cpu", "cuda": "fbgemm-gpu"}  # the package of FBGEMM, by type of device


def open_kernel(
    name: str, optimizer: OptimizerConfig, shape: tuple[int, int], precision: Precision, device: torch.device
) -> Kernel:
    """Open the kernel that `embedding.kernel` names, for a weight of this shape (rows, D).

    Raises ConfigError if FBGEMM is requested but unavailable.
    """
    num_rows, dim = shape
    chosen = choose(name, dim, precision.dtype, device)  # raises on a rank without rows too
    if chosen == "fbgemm" and num_rows > 0:
        from trainer.scale.fbgemm_kernel import FbgemmKernel  # the import takes seconds

        return FbgemmKernel(num_rows, dim, device, optimizer)
    return TorchKernel(optimizer, shape, precision, device)


def choose(name: str, dim: int, dtype: torch.dtype, device: torch.device) -> Literal["torch", "fbgemm"]:
    """Return the kernel for a value of `embedding.kernel`. Raises ConfigError if it is "fbgemm" and unavailable.

    `auto` means torch on a CPU, where either may be faster (docs/dependencies.md), and FBGEMM on a GPU if it works. A
    run replaces `fastest` by the kernel that it measured (fastest_kernel.py); otherwise `fastest` means `auto`.
    """
    requested = name == "fbgemm"
    if name == "torch" or (device.type == "cpu" and not requested):
        return "torch"
    unavailable = _why_unavailable(dim, dtype, device)
    reason = unavailable or _why_broken(dim, device)
    if reason is None:
        return "fbgemm"
    if requested:
        raise ConfigError("cannot use embedding.kernel fbgemm", reason, "Change it with --set embedding.kernel=torch")
    if not unavailable and not device.index:  # broken; all ranks of a host have this installation, so one prints it
        print(f"trainer: torch computes on the tables instead of FBGEMM: {reason}", file=sys.stderr, flush=True)
    return "torch"


def _why_unavailable(dim: int, dtype: torch.dtype, device: torch.device) -> str | None:
    """Return the reason that FBGEMM does not support this configuration or is not installed, or None."""
    if dtype != torch.float32:
        return f"it updates in float32 and not in {str(dtype).removeprefix('torch.')}"
    if dim % 4:
        return f"it needs the columns of a shard to be a multiple of 4, which {dim} is not"
    if importlib.util.find_spec("fbgemm_gpu") is None:
        return f"{_PACKAGE[device.type]} is not installed"
    return None


def _why_broken(dim: int, device: torch.device) -> str | None:
    """Return the reason that the installed FBGEMM does not work, or None.

    A trial update detects an FBGEMM that was built for another torch or without GPU support.
    """
    try:
        with _without_log():
            from trainer.scale.fbgemm_kernel import FbgemmKernel

            kernel = FbgemmKernel(1, dim, device, OptimizerConfig(embedding="sgd"))
            kernel.weight.fill_(1.0)
            first_row = torch.zeros(1, dtype=torch.int32, device=device)
            bags = Bags(first_row, first_row + 1)  # one bag with one row
            kernel.update(bags, kernel.lookup(bags), 0.5)
            is_correct = kernel.weight.eq(0.5).all().item()
    except Exception as error:  # a library that was built for another torch may raise anything
        reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
    else:
        if is_correct:
            return None
        reason = "its updates are wrong"
    return f"the installed {_PACKAGE[device.type]} does not fit torch {torch.__version__} ({reason})"


@contextmanager
def _without_log() -> Iterator[None]:
    """Disable logging, because FBGEMM logs a page about each library that it cannot load."""
    previous_level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(previous_level)
