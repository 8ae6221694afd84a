"""The start of the scripts of these tests: a watched rank, a model, and functions that return its state."""

import textwrap

WATCHED = """
import copy, gc, io, json, os, pickle, sys, time, warnings
import torch, zmon
from torch import nn
from zmon import probe
from zmon.box import layout
from zmon.schema.names import ACTIVITIES, PHASES
torch.set_num_threads(1)
assert zmon.attach()
timeline = probe.current

def activity():
    return ACTIVITIES[timeline.activity]

def phase():
    return PHASES[timeline.current_phase]

def steps():
    return timeline.ledger._numbers[layout.STEPS]

model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
batch = torch.ones(4, 2)

def train(model=model):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""

JOINED = """
import torch.distributed as dist
from zmon.probe.hooks import works
from zmon.schema.names import OPS
dist.init_process_group(
    "gloo", init_method="file://" + os.path.dirname(sys.argv[0]) + "/store",
    rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]),
)

def counts(op):
    n, count = len(OPS), timeline.ledger.counts
    return [count[part * n + OPS.index(op)] for part in range(3)]
"""


def run_script(start_rank, script, joined=False, ranks=1, before=""):
    """Run a script in each rank and return the printed lines; no rank may fail, and zmon may print nothing."""
    whole = textwrap.dedent(before) + WATCHED + (JOINED if joined else "") + textwrap.dedent(script)
    if joined:
        whole += "\ndist.destroy_process_group()\n"
    started = [start_rank(whole, number, ranks, GLOO_SOCKET_IFNAME="lo") for number in range(ranks)]
    for rank in started:
        code = rank.wait(40)
        assert code == 0, (code, rank.output)
    outputs = [rank.output.splitlines() for rank in started]
    assert not any(line.startswith("zmon:") for lines in outputs for line in lines), outputs
    return outputs if ranks > 1 else outputs[0]
