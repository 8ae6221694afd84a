"""Tables of scripts that run in a watched rank, each with the lines that it prints.

    == each update is a step
    for _ in range(2):
        train()
        print(steps())
    > 1
    > 2
    print(activity())  # > train

A line with `==` begins a case with its name. What the script must print is in lines that begin with `>`, or behind
`# >` at the end of a line of the script.

Each script begins with `WATCHED`: a rank, a model, and functions that return the state of the rank, some from private
attributes, because nothing public has it inside the rank.
"""

import textwrap
from dataclasses import dataclass

import pytest

WATCHED = """
import concurrent.futures, copy, gc, io, json, os, pickle, sys, threading, time, warnings
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

def train(trained=None, times=1):
    for _ in range(times):
        optimizer.zero_grad()
        (model if trained is None else trained)(batch).sum().backward()
        optimizer.step()

def evaluate(evaluated=None, batch=batch):
    # Evaluate a model, and return the activity of the rank after that.
    evaluated = model if evaluated is None else evaluated
    evaluated.eval()
    with torch.no_grad():
        evaluated(batch)
    return activity()

def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
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
    # How often the rank has called this operation, and the bytes that it sent and received.
    return [timeline.ledger.counts[first + OPS.index(op)] for first in (layout.COUNT, layout.SENT, layout.RECEIVED)]
"""
# A process group of one rank, for scripts that join more than once.
JOIN = """
import torch.distributed as dist

def join(name, **timeout):
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[0]}.{name}", rank=0, world_size=1, **timeout)
"""

# Steps whose operations are counted.
COUNTED = """
from torch.utils._python_dispatch import _get_current_dispatch_mode as mode
from torch.utils.flop_counter import FlopCounterMode

def run(step, number=20):
    for _ in range(number):
        step()

source = lambda: probe._identity.flops_source
flops = lambda: timeline.ledger.counted_flops
dtypes = lambda: probe._identity.flops_dtypes
uncounted = lambda: probe._identity.uncounted

def stepper(loss, parameters):
    # A step that computes this loss.
    optimizer = torch.optim.SGD(parameters, 0.01)
    def step():
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return step

def trainer_of(net, inputs):
    return stepper(lambda: net(inputs).float().sum(), net.parameters())

net, ones = nn.Linear(8, 8), torch.ones(2, 8)
small_step = trainer_of(net, ones)  # 2 · 2 · 8 · 8 operations in forward and as many in backward: 512

called = []
def backend(graph, inputs):
    def call(*args):
        called.append(1)
        return graph.forward(*args)
    return call
"""

# The regular end of a process that has loaded torch takes longer than most scripts; other tests cover it.
END = "\nsys.stdout.flush()\nos._exit(0)\n"


def run_script(start_rank, script, joined=False, num_ranks=1, before=""):
    """Run a script in each rank and return the printed lines, or those of each rank if there are several ranks.

    No rank may fail, and zmon may print nothing. `joined`: the ranks have joined a process group. `before` runs before
    zmon is attached.
    """
    whole = textwrap.dedent(before) + WATCHED + (JOINED if joined else "") + textwrap.dedent(script)
    if joined:
        whole += "\ndist.destroy_process_group()\n"
    started = [start_rank(whole + END, number, num_ranks, GLOO_SOCKET_IFNAME="lo") for number in range(num_ranks)]
    for rank in started:
        code = rank.wait(40)
        assert code == 0, (code, rank.output)
    outputs = [rank.output.splitlines() for rank in started]
    assert not any(line.startswith("zmon:") for lines in outputs for line in lines), outputs
    return outputs if num_ranks > 1 else outputs[0]


@dataclass(frozen=True)
class Case:
    """A script, and the lines that each of its ranks must print."""

    script: str
    lines: list[str]
    joined: bool
    num_ranks: int

    def check(self, start_rank):
        """Run the script, and compare what its ranks print."""
        printed = run_script(start_rank, self.script, self.joined, self.num_ranks)
        assert printed == (self.lines if self.num_ranks == 1 else [self.lines] * self.num_ranks), printed


def cases(table, start="", joined=False, num_ranks=1):
    """Return the cases of a table, as parameters of a test. All begin with the script `start`."""
    first, *rows = table.split("\n== ")
    assert not first.strip(), "a table begins with a line break and =="
    parameters = []
    for case in rows:
        name, *lines = case.strip().splitlines()
        script = "\n".join(line for line in lines if not line.startswith("> "))
        printed = [line.rpartition("> ")[2] for line in lines if line.startswith("> ") or "  # > " in line]
        assert printed, f"{name} prints nothing"
        parameters.append(pytest.param(Case(start + script, printed, joined, num_ranks), id=name))
    return parameters
