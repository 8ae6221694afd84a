"""Tests of the hook for torch's compiler. A compilation is an activity of its own, wherever it interrupts the rank."""

from tests.probe.hooks.scripts import run_script

BACKEND = """
seen_activities = []
def backend(graph, inputs):
    seen_activities.append(activity())
    return graph.forward
def double(x):
    return 2 * x
"""


def test_compilation_in_training_is_compile_and_then_training_again(start_rank):
    script = (
        BACKEND
        + """
train()
torch.compile(double, backend=backend)(batch)
print(seen_activities, activity())
train()
print(activity(), steps())
"""
    )
    assert run_script(start_rank, script) == ["['compile'] train", "train 2"]


def test_compilation_before_the_first_step_returns_to_init(start_rank):
    script = BACKEND + "torch.compile(double, backend=backend)(batch)\nprint(seen_activities, activity())"
    assert run_script(start_rank, script) == ["['compile'] init"]


def test_compilation_is_recognized_after_a_reset_of_the_compiler(start_rank):
    """The reset removes all callbacks that were registered with torch."""
    script = (
        BACKEND
        + """
train()
torch._dynamo.reset()
torch.compile(double, backend=backend)(batch)
print(seen_activities, activity())
"""
    )
    assert run_script(start_rank, script) == ["['compile'] train"]


def test_compilation_that_fails_returns_to_training(start_rank):
    script = """
def broken(graph, inputs):
    raise ValueError("no such device")
train()
try:
    torch.compile(lambda x: 2 * x, backend=broken)(batch)
except torch._dynamo.exc.BackendCompilerFailed:
    print(activity())
"""
    assert run_script(start_rank, script) == ["train"]


def test_phase_that_a_compilation_interrupts_continues_after_it(start_rank):
    script = (
        BACKEND
        + """
with zmon.step():
    zmon.phase("embedding")
    torch.compile(double, backend=backend)(batch)
    print(phase(), activity())
"""
    )
    assert run_script(start_rank, script) == ["embedding train"]


def test_compilation_in_an_evaluation_returns_to_it(start_rank):
    script = (
        BACKEND
        + """
train()
with zmon.activity("eval"):
    torch.compile(double, backend=backend)(batch)
    print(seen_activities, activity())
print(activity())
"""
    )
    assert run_script(start_rank, script) == ["['compile'] eval", "train"]
