"""Run a script whose loader, model, collectives and saves are slow now and then; the script knows nothing of it.

python delayed.py ORDERS SCRIPT…     ORDERS: JSON, what → [first step, last step, seconds]
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


def slow(what):
    """As ordered for this step."""
    first, last, seconds = ORDERS.get(what, (0, -1, 0.0))
    if first <= steps <= last:
        time.sleep(seconds)


def after(what, call):
    """The call, and before it a delay."""

    def delayed(*args, **kwargs):
        slow(what)
        return call(*args, **kwargs)

    return delayed


step = torch.optim.SGD.step


def counted(self, *args, **kwargs):
    """A step of the job."""
    global steps
    done = step(self, *args, **kwargs)
    steps += 1
    return done


torch.optim.SGD.step = counted
fetcher = torch.utils.data._utils.fetch._IterableDatasetFetcher
fetcher.fetch = after("data", fetcher.fetch)
dist.all_reduce = dist.distributed_c10d.all_reduce = after("all_reduce", dist.all_reduce)
torch.save = after("checkpoint", torch.save)
if os.environ["RANK"] == "1":
    torch.nn.Linear.forward = after("forward", torch.nn.Linear.forward)
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
