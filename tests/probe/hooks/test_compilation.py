"""Tests of the hook for torch's compiler. A compilation is an activity of its own, wherever it interrupts the rank."""

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
print(*compile_now())
> compile init
train()
print(*compile_now())
> compile train
train()
print(activity(), steps())
> train 2
print(*compile_now())
> compile train
with zmon.activity("eval"):
    print(*compile_now())
> compile eval
print(activity())
> train

== first compilation of a rank that trains is recognized without a reset of the compiler
train()
print(*compile_now(reset=False))
> compile train

== compilation that fails returns to training
def broken(graph, inputs):
    raise ValueError("no such device")
train()
try:
    torch.compile(lambda x: 2 * x, backend=broken)(batch)
except torch._dynamo.exc.BackendCompilerFailed:
    print(activity())
> train

== phase that a compilation interrupts continues after it
with zmon.step():
    zmon.phase("embedding")
    print(*compile_now(), phase())
> compile train embedding
"""


@pytest.mark.parametrize("case", cases(CASES, COMPILE))
def test_compilation(start_rank, case):
    case.check(start_rank)
