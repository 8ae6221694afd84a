"""Train, save and evaluate. Write two bounds of the lifetime that zmon must report, to the file `sys.argv[1]`.

The lower bound, `inside`, begins after `attach`. The upper bound, `outside`, begins before it.
"""

import atexit
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

import zmon

LAST_STEP = 90
CHECKPOINT_STEP = 75
EVALUATION_STEP = 80
EVALUATION_SECONDS = 2.0  # the test expects them

before_attach = time.monotonic()
atexit.register(lambda: write_bound("outside", before_attach))  # runs after zmon's handler, which is registered later
zmon.attach()
after_attach = time.monotonic()


def write_bound(name, begin):
    """Write a line for the test: the name of the bound, and the seconds since its begin."""
    if os.environ["RANK"] == "0":
        with Path(sys.argv[1]).open("a") as file:
            print(name, time.monotonic() - begin, file=file)


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
    if step == CHECKPOINT_STEP and dist.get_rank() == 0:
        torch.save(model.state_dict(), sys.argv[1] + ".pt")
    if step == EVALUATION_STEP:
        model.eval()
        with torch.no_grad():
            model(batch)
            time.sleep(EVALUATION_SECONDS)
        model.train()
    if step == LAST_STEP:
        break
dist.barrier()
dist.destroy_process_group()
write_bound("inside", after_attach)
# A thread of gloo frees the last tensors; torch 2.13 aborts if the interpreter has ended by then.
time.sleep(0.5)
