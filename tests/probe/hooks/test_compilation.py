"""Tests of jobs that torch compiles: a compilation is an activity of its own, and a compiled update is a step."""

import functools

import pytest

from tests.probe.hooks.scripts import cases

COMPILE = """
def compile_now(reset=True):
    # Compile and call a new function; return the activity during the compilation, and the activity after the call.
    activities = []
    def backend(graph, inputs):
        activities.append(activity())
        return graph.forward
    if reset:
        torch._dynamo.reset()  # this also removes all callbacks that were registered with torch
    torch.compile(lambda x: 2 * x, backend=backend)(batch)
    return *activities, activity()
"""

CASES = """
== compilation returns to the activity that it interrupts
print(*compile_now())  # > compile init
train()
print(*compile_now())  # > compile train
train()
print(activity(), steps())  # > train 2
print(*compile_now())  # > compile train
with zmon.activity("eval"):
    print(*compile_now())  # > compile eval
print(activity())  # > train

== first compilation of a rank that trains is recognized without a reset of the compiler
train()
print(*compile_now(reset=False))  # > compile train

== compilation that fails returns to training
def broken(graph, inputs):
    raise ValueError("no such device")
train()
try:
    torch.compile(lambda x: 2 * x, backend=broken)(batch)
except torch._dynamo.exc.BackendCompilerFailed:
    print(activity())  # > train

== phase that a compilation interrupts continues after it
with zmon.step():
    zmon.phase("embedding")
    print(*compile_now(), phase())  # > compile train embedding
"""


@pytest.mark.parametrize("case", cases(CASES, COMPILE))
def test_compilation_is_an_activity_of_its_own(start_rank, case):
    case.check(start_rank)


OPTIMIZERS = """
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

UPDATES = """
== each update of a compiled step of torch is a step
update = torch.compile(lambda: optimizer.step(), backend="eager")
for _ in range(5):
    backward()
    update()
print(steps(), activity(), phase(), graphs())  # > 5 train other 1

== update of a step that is one graph is a step, and breaks no graph
optimizer = Own(model.parameters())
update = torch.compile(lambda: optimizer.step(), backend="eager", fullgraph=True)
for _ in range(5):
    backward()
    update()
print(steps(), activity(), phase(), graphs(), breaks())  # > 5 train other 1 0

== uncompiled and compiled updates in turn are all steps
update = torch.compile(lambda: optimizer.step(), backend="eager")
for _ in range(3):
    train()
    backward()
    update()
print(steps())  # > 6

== compiled updates by two optimizers are a single step per round
optimizer, other = Own(model.parameters()), Own(model.parameters())
update = torch.compile(lambda: (optimizer.step(), other.step()), backend="eager", fullgraph=True)
for _ in range(4):
    backward()
    update()
print(steps(), breaks())  # > 4 0

== compiled model without an update is no step
compiled = torch.compile(lambda: model(batch).sum(), backend="eager", fullgraph=True)
for _ in range(3):
    compiled().backward()
print(steps(), breaks())  # > 0 0
"""


@pytest.mark.parametrize("edge", ["", "python"])
@pytest.mark.parametrize("case", cases(UPDATES, OPTIMIZERS))
def test_compiled_update_is_a_step(start_rank, case, edge):
    case.check(functools.partial(start_rank, ZMON_EDGE=edge))
