"""Run a script with delays in its loader, model, collectives and saves; the script is unchanged.

Usage: `python delayed.py ORDERS SCRIPT…`. ORDERS is a JSON object with [first step, last step, seconds] by part. The
parts are `data`, `all_reduce`, `checkpoint`, and `forward` (of rank 1 only).
"""

import json
import os
import runpy
import sys
import time

import torch
import torch.distributed as dist

ORDERS = json.loads(sys.argv[1])
steps = 0


def delay(part):
    """Sleep as ordered for this part and step."""
    first, last, seconds = ORDERS.get(part, (0, -1, 0.0))
    if first <= steps <= last:
        time.sleep(seconds)


def delayed(part, call):
    """Return a function that makes the call after the delay of this part."""

    def call_later(*args, **kwargs):
        delay(part)
        return call(*args, **kwargs)

    return call_later


step = torch.optim.SGD.step


def counted(self, *args, **kwargs):
    """Do a step of the job and count it."""
    global steps
    result = step(self, *args, **kwargs)
    steps += 1
    return result


torch.optim.SGD.step = counted
fetcher = torch.utils.data._utils.fetch._IterableDatasetFetcher
fetcher.fetch = delayed("data", fetcher.fetch)
dist.all_reduce = dist.distributed_c10d.all_reduce = delayed("all_reduce", dist.all_reduce)
torch.save = delayed("checkpoint", torch.save)
if os.environ["RANK"] == "1":
    torch.nn.Linear.forward = delayed("forward", torch.nn.Linear.forward)
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
