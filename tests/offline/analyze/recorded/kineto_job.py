"""Write the traces of torch's profiler from a data-parallel job of three gloo ranks on CPU; rank 1 computes longer.

Usage: `python kineto_job.py FOLDER`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, TensorDataset

STEPS = 28


class Model(torch.nn.Module):
    """One layer, with a pause that stands for the computation of a larger model."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.layer, self.seconds = torch.nn.Linear(64, 8), seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return self.layer(x).square().mean()


def train(rank: int, folder: str) -> None:
    """Train as one rank, and write its trace into the folder."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29617")
    dist.init_process_group("gloo", rank=rank, world_size=3)
    torch.set_num_threads(1)
    model = DistributedDataParallel(Model(0.3 if rank == 1 else 0.1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(8 * (STEPS + 2), 64)), batch_size=8)
    path = str(Path(folder) / f"rank{rank}.pt.trace.json.gz")
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),
        on_trace_ready=lambda finished: finished.export_chrome_trace(path),
    ) as profiler:
        for (batch,) in loader:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
            dist.barrier()
            profiler.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, args=(sys.argv[1],), nprocs=3)
