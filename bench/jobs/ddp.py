"""DistributedDataParallel and four more collectives: two all_to_all, an all_reduce, and an asynchronous all_reduce."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench.jobs.training import BATCH, WIDTH, Fill, Training, small_model


def make(fill: Fill, place: torch.device) -> Training:
    """Create the model and its optimizer."""
    model = DistributedDataParallel(small_model(place))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.ones(BATCH, WIDTH, device=place)
    rows = torch.ones(256, device=place)
    mean = torch.ones(1, device=place)
    counter = torch.ones(8, device=place)

    def step(pause: float) -> None:
        work = dist.all_reduce(counter, async_op=True)
        dist.all_to_all_single(torch.empty_like(rows), rows)
        loss = model(batch).square().mean()
        work.wait()
        optimizer.zero_grad()
        loss.backward()
        dist.all_to_all_single(torch.empty_like(rows), rows)
        optimizer.step()
        dist.all_reduce(mean.fill_(loss.item()))
        counter.fill_(1)
        fill(pause)

    return Training(step, model)
