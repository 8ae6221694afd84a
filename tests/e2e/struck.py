"""A small DDP job that somebody else's fault strikes: STEPS, then whatever the file named on the command line says.

torchrun struck.py FAULT_FILE      the file: what happens, and to which rank. Nothing of it is told to zmon.
"""

import ctypes
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

import zmon

FAULT_FILE = Path(sys.argv[1])


def struck() -> str:
    """What happens to this rank, if anything does."""
    if not FAULT_FILE.exists():
        return ""
    fault, _, rank = FAULT_FILE.read_text().partition(" ")
    return fault if rank and int(rank) == dist.get_rank() else ""


class Samples(IterableDataset):
    def __iter__(self):
        while True:
            if struck() == "loader":
                time.sleep(1000)
            yield torch.randn(8)


zmon.attach()
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
lock = threading.Lock()
for batch in DataLoader(Samples(), batch_size=4):
    time.sleep(0.01)
    fault = struck()
    if fault == "lock":
        lock.acquire()
        lock.acquire()
    if fault == "native":
        ctypes.PyDLL(None).sleep(1000)  # keeps the interpreter lock
    if fault == "left":
        break
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if fault != "skip":
        dist.all_reduce(torch.ones(10))
    dist.all_to_all_single(torch.empty(4), torch.ones(4))
    optimizer.step()
time.sleep(1000)
