"""Tests of the hook for autograd's engine.

A call is in the backward phase. A call that accumulates gradients also ends an evaluation.
"""

from tests.probe.hooks.scripts import run_script

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
"""


def test_backward_has_its_phase_and_restores_the_previous_phase(start_rank):
    script = NOTE + "Note.apply(x).sum().backward()\nprint(phases, phase(), activity())"
    assert run_script(start_rank, script) == ["['backward'] other train"]


def test_explicit_gradients_do_not_end_an_evaluation(start_rank):
    """A job that computes the forces of a molecule in an evaluation uses explicit gradients."""
    script = NOTE + (
        "train()\nwith torch.no_grad():\n    model.eval()(batch)\n"
        "torch.autograd.grad(Note.apply(x).sum(), x)\nprint(phases, activity())"
    )
    assert run_script(start_rank, script) == ["['backward'] eval"]


def test_backward_ends_evaluation(start_rank):
    script = "train()\nwith torch.no_grad():\n    model.eval()(batch)\nprint(activity())\nmodel.train()\n"
    assert run_script(start_rank, script + "model(batch).sum().backward()\nprint(activity())") == ["eval", "train"]


def test_backward_that_raises_restores_the_phase(start_rank):
    script = """
        loss = model(batch).sum()
        loss.backward()
        timeline.phase(PHASES.index("forward"))
        try:
            loss.backward()
        except RuntimeError:
            print(phase())
    """
    assert run_script(start_rank, script) == ["forward"]


def test_phases_that_the_job_marks_are_unchanged(start_rank):
    script = NOTE + "train()\nzmon.phase('embedding')\nNote.apply(x).sum().backward()\nprint(phases, phase())"
    assert run_script(start_rank, script) == ["['embedding'] embedding"]


def test_nested_backward_stays_in_the_backward_phase(start_rank):
    script = (
        NOTE
        + """
from torch.utils.checkpoint import checkpoint
checkpoint(lambda x: Note.apply(x).exp(), x, use_reentrant=True).sum().backward()
print(phases, phase())
"""
    )
    assert run_script(start_rank, script) == ["['backward'] other"]


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
    assert run_script(start_rank, "for _ in range(6):\n    train()\nprint(len(calls))", before=before) == ["6"]


def test_interrupt_during_the_search_for_the_model_reaches_the_job(start_rank):
    script = """
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
print(reached)
"""
    assert run_script(start_rank, script) == ["1"]
