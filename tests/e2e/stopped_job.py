"""Train with DDP. At step 30 rank 1 stops itself at the place that the variable PLACE names."""

import os
import signal
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import zmon

STRUCK, STEP = 1, 30
PAUSE = 0.02  # seconds in each step
LATE_SECONDS = 0.5  # the other ranks enter the collective this long after the rank that waits in it


class StoppingTensor(torch.Tensor):
    """A tensor that stops the rank when its size is read. zmon's hook around a collective reads it."""

    @property
    def nbytes(self):
        stop()
        return super().nbytes


def stop():
    """Stop this process."""
    os.kill(os.getpid(), signal.SIGSTOP)


def stop_later():
    """Stop this process while it waits."""
    threading.Timer(LATE_SECONDS / 2, stop).start()


def reduce(values, step):
    """Add up values over the ranks and wait. Two of the places are here."""
    if step == STEP and place == "in a wait":
        if is_struck:
            stop_later()
        else:
            time.sleep(LATE_SECONDS)
    tensor = values.as_subclass(StoppingTensor) if strikes("in a collective", step) else values
    dist.all_reduce(tensor, async_op=True).wait()


def strikes(name, step):
    """Return True if this rank is to be stopped in this step, at this place."""
    return step == STEP and is_struck and place == name


zmon.attach()
place = os.environ["PLACE"]
is_struck = int(os.environ["RANK"]) == STRUCK
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(10**6):
    time.sleep(PAUSE)
    optimizer.zero_grad()
    loss = model(torch.randn(4, 64)).square().mean()
    if strikes("in the backward pass", step):
        model.module[0].weight.register_hook(lambda _: stop())
    loss.backward()
    reduce(torch.ones(8), step)
    optimizer.step()
