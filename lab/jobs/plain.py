"""Train a synchronous job that does not import zmon, with its own loop and collectives. The saboteur strikes it."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from hangs import linger  # type: ignore[import-not-found]
from saboteur import Saboteur, hot_factor  # type: ignore[import-not-found]
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

WIDTH = 64
CHUNK = 256  # minimum count of numbers that a rank sends to each other rank
FLOAT_BYTES = 4


class _Samples(Dataset):  # type: ignore[misc]
    """A data set of 2^30 random samples, which no drill exhausts."""

    def __init__(self, saboteur: Any) -> None:
        self.saboteur = saboteur

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, _: int) -> Tensor:
        self.saboteur.load()
        return torch.randn(8, WIDTH)


def shuffle(exchange_bytes: int, hot: int | None) -> float:
    """Send every rank its chunk; return the amount that this rank received, as a multiple of the usual amount.

    A hot rank gets three times the mean of all ranks.
    """
    chunk = max(CHUNK, exchange_bytes // FLOAT_BYTES)
    rank = dist.get_rank()
    ranks = dist.get_world_size()
    factor = 1 if hot is None else hot_factor(ranks)
    to_send = [int(chunk * factor) if to == hot else chunk for to in range(ranks)]
    to_receive = [to_send[rank]] * ranks
    dist.all_to_all_single(torch.empty(sum(to_receive)), torch.ones(sum(to_send)), to_receive, to_send)
    ratio: float = to_send[rank] / chunk
    return ratio


def train_step(model: Any, optimizer: Any, batch: Tensor, saboteur: Any) -> None:
    """Do one update with an explicit `all_reduce` of the gradients."""
    optimizer.zero_grad()
    with saboteur.compute():
        loss = model(batch).square().mean()
    loss.backward()
    received = shuffle(saboteur.exchange_bytes, saboteur.hot())
    saboteur.serve(received)
    gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    if not saboteur.skips():
        times = saboteur.sent_size(len(gradients)) // len(gradients)  # 2 if this rank is to bring another size
        dist.all_reduce(gradients.repeat(times))
    optimizer.step()


def evaluate(model: Any, batch: Tensor, seconds: float) -> None:
    """Evaluate for this many seconds, with forward passes only."""
    model.eval()
    end = time.monotonic() + seconds
    with torch.no_grad():
        while time.monotonic() < end:
            model(batch)
            time.sleep(0.05)
    model.train()


def main() -> None:
    """Train until stopped."""
    saboteur = Saboteur()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    saboteur.begin_step()
    for batch in DataLoader(_Samples(saboteur), batch_size=None, sampler=range(1 << 30)):
        if saboteur.order("batch"):
            batch = torch.cat([batch, batch])
            optimizer.param_groups[0]["lr"] = 0.0005
        if saboteur.swallows():
            loss = model(batch).square().mean()
            loss.backward()
            shuffle(saboteur.exchange_bytes, None)
            saboteur.begin_step()
            continue
        train_step(model, optimizer, batch, saboteur)
        saboteur.between_steps(
            partial(evaluate, model, batch), lambda file: torch.save(model.state_dict(), file), dist.barrier
        )
        if saboteur.leaves():
            break
        saboteur.begin_step()
    if not saboteur.last_step:
        linger()
    dist.destroy_process_group()


main()
