"""Train, save and evaluate, and write bounds of the lifetime that zmon must report: inside and outside `attach`."""

import atexit
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

import zmon

STEPS, SAVES_AT, EVALUATES_AT = 90, 75, 80

before = time.monotonic()
atexit.register(lambda: write_bound("outside", before))  # registered before zmon's own handler, so it runs after that
zmon.attach()
begin = time.monotonic()


def write_bound(name, since):
    """Write a line for the test: the name of the bound, and its seconds."""
    if os.environ["RANK"] == "0":
        with Path(sys.argv[1]).open("a") as file:
            print(name, time.monotonic() - since, file=file)


class Samples(IterableDataset):
    """An endless stream of samples."""

    def __iter__(self):
        while True:
            yield torch.randn(4)


dist.init_process_group("gloo")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step, batch in enumerate(DataLoader(Samples(), batch_size=8)):
    loss = model(batch).square().mean()
    loss.backward()
    time.sleep(0.010)
    dist.all_reduce(model.weight.grad)
    optimizer.step()
    optimizer.zero_grad()
    if step == SAVES_AT and dist.get_rank() == 0:
        torch.save(model.state_dict(), sys.argv[1] + ".pt")
    if step == EVALUATES_AT:
        model.eval()
        with torch.no_grad():
            model(batch)
            time.sleep(2)
        model.train()
    if step == STEPS:
        break
dist.barrier()
dist.destroy_process_group()
write_bound("inside", begin)
# A thread of gloo frees the last tensors; torch 2.13 aborts if the interpreter has ended by then.
time.sleep(0.5)
