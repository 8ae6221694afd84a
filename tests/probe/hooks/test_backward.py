"""Tests of the hook for autograd's engine: a call is in the backward phase, and may end an evaluation."""

import pytest

from tests.probe.hooks.scripts import cases, run_script

NOTE = """
phases = []
class Note(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        phases.append(phase())
        return gradient
x = torch.ones(2, requires_grad=True)
def noted():
    # Return the phases since the last call, and the current phase and activity.
    since_last = list(phases)
    phases.clear()
    return since_last, phase(), activity()
"""

CASES = """
== backward has its phase, also if it is nested, and restores the previous phase, also if it raises
Note.apply(x).sum().backward()
print(*noted())  # > ['backward'] other train
from torch.utils.checkpoint import checkpoint
checkpoint(lambda x: Note.apply(x).exp(), x, use_reentrant=True).sum().backward()
print(*noted())  # > ['backward'] other train
loss = model(batch).sum()
loss.backward()
timeline.phase(PHASES.index("forward"))
try:
    loss.backward()
except RuntimeError:
    print(phase())  # > forward

== backward ends an evaluation, and explicit gradients do not
# A job that computes the forces of a molecule in an evaluation uses explicit gradients.
train()
evaluate()
torch.autograd.grad(Note.apply(x).sum(), x)
print(*noted())  # > ['backward'] other eval
model.train()
model(batch).sum().backward()
print(activity())  # > train

== phases that the job marks are unchanged
train()
zmon.phase('embedding')
Note.apply(x).sum().backward()
print(*noted())  # > ['embedding'] embedding train

== interrupt during the search for the model reaches the job
from zmon.probe.hooks import forward
class Alarm(BaseException):
    pass
def search():
    raise Alarm
forward._search = search
reached = 0
for _ in range(2):
    try:
        train()
    except Alarm:
        reached += 1
print(reached)  # > 1
"""


@pytest.mark.parametrize("case", cases(CASES, NOTE))
def test_backward_pass_has_its_phase_and_may_end_an_evaluation(start_rank, case):
    case.check(start_rank)


def test_wrapper_of_the_job_around_the_engine_still_runs(start_rank):
    before = """
    import functools, torch
    from torch.autograd import graph
    calls, engine = [], graph._engine_run_backward
    @functools.wraps(engine)
    def counting(*args, **kwargs):
        calls.append(1)
        return engine(*args, **kwargs)
    graph._engine_run_backward = torch.autograd._engine_run_backward = counting
    """
    assert run_script(start_rank, "train(times=6)\nprint(len(calls))", before=before) == ["6"]
