"""DistributedDataParallel with batches from a DataLoader, which loads them in the rank's own process."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from bench.jobs.training import BATCH, WIDTH, Fill, Training, small_model

_NUM_BATCHES = 1000


def make(fill: Fill, place: torch.device) -> Training:
    """Create the model, its optimizer and the loader."""
    model = DistributedDataParallel(small_model(place))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(torch.ones(_NUM_BATCHES * BATCH, WIDTH)), batch_size=BATCH)
    batches = _batches(loader)

    def step(pause: float) -> None:
        (batch,) = next(batches)
        optimizer.zero_grad()
        model(batch.to(place)).square().mean().backward()
        optimizer.step()
        fill(pause)

    return Training(step, model)


def _batches(loader: DataLoader[tuple[torch.Tensor, ...]]) -> Iterator[tuple[torch.Tensor, ...]]:
    while True:
        yield from loader
