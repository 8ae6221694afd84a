"""Tests of the processes that a rank starts, and of those that one starts which was its whole job until then."""

import os
import subprocess
import sys

import pytest

from tests.probe.reading import boxes_below
from zmon.probe.run import environment

FORK = """
import os, sys
from zmon import probe
probe.expect_rank(lambda: None)
probe.start_as_rank(*map(int, sys.argv[1:]))
parent = probe.current
def child(become):
    pid = os.fork()
    if pid == 0:
        become()
        print(probe._identity.rank if probe.current else "unwatched", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
child(probe.start_training)
child(lambda: probe.start_as_rank(1, 2))
assert probe.current is parent
"""
# The warm-up in one process, then two ranks, as with torch.multiprocessing.spawn or accelerate.notebook_launcher.
SCRIPT = """
import multiprocessing, os, sys, torch
import torch.distributed as dist

def train(steps):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

def helper():
    train(7)

def rank(number, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=2)
    train(5)
    dist.destroy_process_group()

if __name__ == "__main__":
    train(3)
    context = multiprocessing.get_context(sys.argv[1])
    ranks = [context.Process(target=rank, args=(number, sys.argv[2])) for number in range(2)]
    processes = [context.Process(target=helper), *ranks]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    train(2)
"""
