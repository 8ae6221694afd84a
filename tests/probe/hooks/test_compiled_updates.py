"""Tests of compiled optimizer steps: each update is a step, without a warning and without another graph of torch."""

import functools

import pytest

from tests.probe.hooks.scripts import cases

START = """
import torch._dynamo
from torch._dynamo.utils import counters

class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(list(parameters), {})
    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.add_(parameter.grad, alpha=-0.1)

def graphs():
    return counters["stats"]["unique_graphs"]

def breaks():
    return sum(counters["graph_break"].values())

def backward():
    model.zero_grad()
    model(batch).sum().backward()

warnings.simplefilter("error", UserWarning)
torch._logging.set_logs(dynamo=50)  # hides torch's own warning about the name of the update in a profile
"""

CASES = """
== each update of a compiled step of torch is a step
update = torch.compile(lambda: optimizer.step(), backend="eager")
for _ in range(5):
    backward()
    update()
print(steps(), activity(), phase(), graphs())
> 5 train other 1

== update of a step that is one graph is a step, and breaks no graph
optimizer = Own(model.parameters())
update = torch.compile(lambda: optimizer.step(), backend="eager", fullgraph=True)
for _ in range(5):
    backward()
    update()
print(steps(), activity(), phase(), graphs(), breaks())
> 5 train other 1 0

== uncompiled and compiled updates in turn are all steps
update = torch.compile(lambda: optimizer.step(), backend="eager")
for _ in range(3):
    train()
    backward()
    update()
print(steps())
> 6

== compiled updates by two optimizers are a single step per round
optimizer, other = Own(model.parameters()), Own(model.parameters())
update = torch.compile(lambda: (optimizer.step(), other.step()), backend="eager", fullgraph=True)
for _ in range(4):
    backward()
    update()
print(steps(), breaks())
> 4 0

== compiled model without an update is no step
compiled = torch.compile(lambda: model(batch).sum(), backend="eager", fullgraph=True)
for _ in range(3):
    compiled().backward()
print(steps(), breaks())
> 0 0
"""


@pytest.mark.parametrize("edge", ["", "python"])
@pytest.mark.parametrize("case", cases(CASES, START))
def test_compiled_updates(start_rank, case, edge):
    case.check(functools.partial(start_rank, ZMON_EDGE=edge))
