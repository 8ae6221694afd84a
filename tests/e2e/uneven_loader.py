"""Train with a loader that is slow on another rank in each step; usage: uneven_loader.py SECONDS."""

import random
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

import zmon

LATE, COMPUTING = float(sys.argv[1]), 0.040  # seconds


class Samples(IterableDataset):
    """An endless stream of batches; all ranks draw the same sequence of late ranks."""

    def __iter__(self):
        draw = random.Random(7)
        while True:
            late = draw.randrange(dist.get_world_size())
            time.sleep(LATE if late == dist.get_rank() else 0.002)
            yield torch.randn(8, 4)


zmon.attach()
dist.init_process_group("gloo")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(Samples(), batch_size=None):
    loss = model(batch).square().mean()
    time.sleep(COMPUTING)
    loss.backward()
    dist.all_reduce(model.weight.grad)
    optimizer.step()
    optimizer.zero_grad()
