"""The form of a training job that bench.job runs, and the small model of several jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

WIDTH, HIDDEN, BATCH = 32, 64, 16

Fill = Callable[[float], object]  # a function that computes, sleeps or keeps the device busy for the given seconds


@dataclass(frozen=True)
class Training:
    """One training job in this process."""

    step: Callable[[float], None]  # runs one step and adds a pause of the given seconds
    model: nn.Module


def small_model(place: torch.device) -> nn.Sequential:
    """Return a model whose own work takes a fraction of a millisecond."""
    return nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)).to(place)
