"""Train with a loader that is late on one random rank in each step.

Usage: `torchrun … uneven_loader.py LATE_SECONDS`.
"""

import random
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

import zmon

LATE_SECONDS = float(sys.argv[1])
LOADING_SECONDS = 0.002  # of the ranks that are not late
COMPUTE_SECONDS = 0.040  # so short that the late loader is most of a step


class Samples(IterableDataset):
    """An endless stream of batches. All ranks draw the same random sequence of late ranks."""

    def __iter__(self):
        generator = random.Random(7)
        while True:
            late_rank = generator.randrange(dist.get_world_size())
            time.sleep(LATE_SECONDS if late_rank == dist.get_rank() else LOADING_SECONDS)
            yield torch.randn(8, 4)


zmon.attach()
dist.init_process_group("gloo")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(Samples(), batch_size=None):
    loss = model(batch).square().mean()
    time.sleep(COMPUTE_SECONDS)
    loss.backward()
    dist.all_reduce(model.weight.grad)
    optimizer.step()
    optimizer.zero_grad()
