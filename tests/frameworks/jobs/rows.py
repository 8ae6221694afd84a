"""The data and the model of the jobs that need no other: a table of numbers, and a small network."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS = 240
MIDDLE = 80  # the step after which a job evaluates and saves
WIDTH = 64  # numbers in a row of the table
BATCH = 8  # rows


def network() -> nn.Module:
    """Return the network, with the same weights on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, 1))


def table(num_rows: int) -> TensorDataset:
    """Return rows of random numbers. The target of a row is the sum of its numbers."""
    x = torch.randn(num_rows, WIDTH, generator=torch.Generator().manual_seed(1))
    return TensorDataset(x, x.sum(1, keepdim=True))


def loader(accumulate: int = 1) -> DataLoader:
    """Return the batches of this rank for all steps. A step has `accumulate` batches."""
    data = table(STEPS * accumulate * BATCH * dist.get_world_size())
    return DataLoader(data, BATCH, sampler=DistributedSampler(data))


@torch.no_grad()
def evaluate(model: nn.Module) -> float:
    """Return the mean loss over eight batches. The model is in evaluation mode meanwhile."""
    model.eval()
    losses = [nn.functional.mse_loss(model(x), y) for x, y in DataLoader(table(8 * BATCH), BATCH)]
    model.train()
    return float(torch.stack(losses).mean())
