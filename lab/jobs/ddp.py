"""Train a small DDP job as a user might write it, with zmon.attach(). The saboteur sets its pace and strikes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from hangs import linger  # type: ignore[import-not-found]
from saboteur import Saboteur  # type: ignore[import-not-found]
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

import zmon

WIDTH = 64


class _Samples(IterableDataset):  # type: ignore[misc]
    """An endless stream of random samples."""

    def __init__(self, saboteur: Any) -> None:
        self.saboteur = saboteur

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            self.saboteur.load()
            yield torch.randn(8, WIDTH)


def evaluate(model: Any, seconds: float) -> None:
    """Evaluate for this many seconds, with forward passes only."""
    model.eval()
    end = time.monotonic() + seconds
    with torch.no_grad():
        while time.monotonic() < end:
            model.module(torch.randn(8, WIDTH))
            time.sleep(0.05)
    model.train()


def main() -> None:
    """Train until stopped."""
    zmon.attach()
    saboteur = Saboteur()
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    ranks = dist.get_world_size()
    chunk = max(1, saboteur.exchange_bytes // 4)  # numbers of four bytes
    saboteur.begin_step()
    for batch in DataLoader(_Samples(saboteur), batch_size=None):
        if saboteur.order("batch"):
            batch = torch.cat([batch, batch])
            optimizer.param_groups[0]["lr"] = 0.0005
        if saboteur.is_nan():
            batch = batch * float("nan")
        optimizer.zero_grad()
        with saboteur.compute():
            loss = model(batch).square().mean()
        loss.backward()
        if saboteur.swallows():
            saboteur.begin_step()
            continue
        if not saboteur.skips():
            dist.all_reduce(torch.ones(saboteur.sent_size(16)))  # stands for a reduction of the step's metrics
        dist.all_to_all_single(torch.empty(ranks * chunk), torch.ones(ranks * chunk))
        optimizer.step()
        zmon.report(loss=float(loss.detach()))
        saboteur.between_steps(
            partial(evaluate, model), lambda file: torch.save(model.state_dict(), file), dist.barrier
        )
        if saboteur.leaves():
            break
        saboteur.begin_step()
    if not saboteur.last_step:
        linger()
    dist.destroy_process_group()


main()
