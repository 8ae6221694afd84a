"""FSDP2: three layers with sharded parameters, which are gathered for each forward and backward pass."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from bench.jobs.training import BATCH, WIDTH, Fill, Training

_LAYERS = 3


def make(fill: Fill, place: torch.device) -> Training:
    """Create the sharded model and its optimizer."""
    mesh = init_device_mesh(place.type, (dist.get_world_size(),))
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(_LAYERS))).to(place)
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.ones(BATCH, WIDTH, device=place)

    def step(pause: float) -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        fill(pause)

    return Training(step, model)
