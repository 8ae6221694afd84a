"""Tests of jobs that make new optimizer objects while they train: an object stands for the one before it."""

import pytest

from tests.probe.hooks.scripts import run_script

MAKE = "make = lambda parameters: torch.optim.SGD(parameters, 0.1)"
# It refers to itself, so only the garbage collector ends it.
CYCLE = """
        gc.disable()
        def make(parameters):
            made = torch.optim.SGD(parameters, 0.1)
            made.itself = made
            return made
"""
TWO = "first, second = make({}.parameters()), make({}.parameters()); first.step(); second.step()"
INNER = "inner = make(copy.deepcopy(model).parameters()); inner.step(); inner.step()"
JOBS = {
    "one for each batch": (MAKE, "make(model.parameters()).step()", 20),
    "one for each batch that refers to itself": (CYCLE, "make(model.parameters()).step()", 20),
    "two for each batch": (MAKE, TWO.format("model[0]", "model[2]"), 20),
    "two of equal models for each batch": (MAKE, TWO.format("model", "twin"), 20),
    "two for each batch that refer to themselves": (CYCLE, TWO.format("model", "twin"), 20),
    # as with one inner optimizer for all tasks, each inner update is a step
    "one for each of two tasks, and one for all": (MAKE, f"{INNER}; {INNER}; optimizer.step()", 80),
}


@pytest.mark.parametrize(("make", "update", "number"), JOBS.values(), ids=JOBS)
def test_new_objects_count_as_the_same_optimizers(start_rank, make, update, number):
    script = f"""
        {make.strip()}
        from zmon.probe.hooks.steps import _fresh, _rounds
        twin = copy.deepcopy(model)
        for _ in range(20):
            {update}
        print(steps(), len([*_rounds._order, *_rounds._joined, *_fresh._known]))
    """
    counted, remembered = map(int, run_script(start_rank, script)[0].split())
    assert number - 2 <= counted <= number  # the first objects are known later
    assert remembered < 10


def test_optimizers_that_nothing_stands_for_are_forgotten(start_rank):
    script = f"""
        {CYCLE.strip()}
        from zmon.probe.hooks.steps import _fresh, _rounds
        for number in range(1500):
            make([torch.nn.Parameter(torch.zeros(2))]).step()
            if number % 100 == 0:
                gc.collect()
        print(len([*_rounds._order, *_rounds._joined, *_fresh._known]))
    """
    assert int(run_script(start_rank, script)[0]) < 1100
