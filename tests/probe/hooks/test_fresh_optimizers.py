"""Tests of jobs that make new optimizer objects while they train: a new object counts as the one that it replaces."""

import pytest
import torch

from tests.probe.hooks.scripts import run_script
from zmon.probe.hooks.fresh_optimizers import FreshOptimizers

MAKE = "make = lambda parameters: torch.optim.SGD(parameters, 0.1)"
# The object refers to itself, so only a garbage collection ends it; automatic ones are off.
CYCLE = """
gc.disable()
def make(parameters):
    made = torch.optim.SGD(parameters, 0.1)
    made.itself = made
    return made
"""
NUM_REMEMBERED = """
from zmon.probe.hooks.steps import _fresh, _rounds
def num_remembered():
    return len([*_rounds._order, *_rounds._joined, *_fresh._known])
"""
# What a job does with each batch: two optimizers of two models, or two updates of the copy of a model for one task.
TWO = "first, second = make({}.parameters()), make({}.parameters()); first.step(); second.step()"
INNER = "inner = make(copy.deepcopy(model).parameters()); inner.step(); inner.step()"
JOBS = {
    # how to make an optimizer, what the job does with each of 20 batches, and the steps of the job
    "one for each batch": (MAKE, "make(model.parameters()).step()", 20),
    "one for each batch that refers to itself": (CYCLE, "make(model.parameters()).step()", 20),
    "two for each batch": (MAKE, TWO.format("model[0]", "model[2]"), 20),
    "two of equal models for each batch": (MAKE, TWO.format("model", "twin"), 20),
    "two for each batch that refer to themselves": (CYCLE, TWO.format("model", "twin"), 20),
    # Each inner update is a step, as if one inner optimizer served all tasks.
    "one for each of two tasks, and one for all": (MAKE, f"{INNER}; {INNER}; optimizer.step()", 80),
}


@pytest.mark.parametrize(("make", "update", "num_steps"), JOBS.values(), ids=JOBS)
def test_new_objects_count_as_the_same_optimizers(start_rank, make, update, num_steps):
    script = f"""
{NUM_REMEMBERED}
{make}
twin = copy.deepcopy(model)
for _ in range(20):
    {update}
print(steps(), num_remembered())
"""
    (line,) = run_script(start_rank, script)
    counted, remembered = map(int, line.split())
    assert num_steps - 2 <= counted <= num_steps  # the first objects replace none
    assert remembered < 10


def test_optimizers_that_no_new_object_replaces_are_forgotten(start_rank):
    """A job makes 1,500 of them, each for other parameters."""
    script = f"""
{NUM_REMEMBERED}
{CYCLE}
for number in range(1500):
    make([nn.Parameter(torch.zeros(2))]).step()
    if number % 100 == 0:
        gc.collect()
print(num_remembered())
"""
    (remembered,) = run_script(start_rank, script)
    assert int(remembered) < 1100


class Silent(torch.Tensor):
    """A parameter whose class must not be asked, as that of torch's ShardedTensor, which prints a warning."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(function)


def test_class_of_a_parameter_is_not_asked_for_its_shape():
    optimizer = torch.optim.SGD([torch.zeros(1)], 0.1)
    optimizer.param_groups[0]["params"] = [torch.zeros(2).as_subclass(Silent)]
    assert FreshOptimizers().add(optimizer) is None
