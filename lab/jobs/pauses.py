"""Make a rank pause as healthy jobs do: loader workers start, an array is saved, a function is compiled.

The module is in the directory of the scripts, so they can import it. A pause is the real event, with a sleep in the
part that a user can supply. zmon sees a pause in a call that it hooks, and must learn the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any


def start_workers(seconds: float) -> None:
    """Begin an epoch with a new loader whose workers take this many seconds to start."""
    from torch.utils.data import DataLoader

    next(iter(DataLoader(range(8), num_workers=1, worker_init_fn=partial(_open_data, seconds))))


def save_array(path: Path, seconds: float) -> None:
    """Save an array with numpy, which no hook sees, to a store that takes this many seconds."""
    import numpy as np

    with path.open("wb") as file:
        np.save(file, np.zeros(1024))
        time.sleep(seconds)


def compile_function(seconds: float) -> None:
    """Compile a small function with a backend that takes this many seconds; each call compiles again."""
    import torch

    def backend(graph: Any, _: Sequence[Any]) -> Callable[..., Any]:
        time.sleep(seconds)
        forward: Callable[..., Any] = graph.forward
        return forward

    def function(numbers: torch.Tensor) -> torch.Tensor:
        return numbers * 2 + 1

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(torch.ones(4))


def _open_data(seconds: float, worker: int) -> None:
    """Start a worker of the loader, in this many seconds."""
    time.sleep(seconds)
