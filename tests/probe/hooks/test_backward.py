"""Backward is what runs autograd's engine; what accumulates gradients trains."""

from tests.probe.hooks.scripts import run

SEEN = """
seen = []
class Note(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        seen.append(phase())
        return gradient
x = torch.ones(2, requires_grad=True)
"""


def test_backward_is_its_phase_and_the_one_before_goes_on(start_rank):
    script = SEEN + "Note.apply(x).sum().backward()\nprint(seen, phase(), activity())"
    assert run(start_rank, script) == ["['backward'] other train"]


def test_gradients_asked_for_in_evaluation_do_not_end_it(start_rank):
    """Forces of a molecule."""
    script = SEEN + (
        "train()\nwith torch.no_grad():\n    model.eval()(batch)\n"
        "torch.autograd.grad(Note.apply(x).sum(), x)\nprint(seen, activity())"
    )
    assert run(start_rank, script) == ["['backward'] eval"]


def test_backward_ends_evaluation(start_rank):
    script = "train()\nwith torch.no_grad():\n    model.eval()(batch)\nprint(activity())\nmodel.train()\n"
    assert run(start_rank, script + "model(batch).sum().backward()\nprint(activity())") == ["eval", "train"]


def test_backward_that_raises_gives_the_phase_back(start_rank):
    script = """
        loss = model(batch).sum()
        loss.backward()
        timeline.phase(PHASES.index("forward"))
        try:
            loss.backward()
        except RuntimeError:
            print(phase())
    """
    assert run(start_rank, script) == ["forward"]


def test_phases_that_the_job_names_stay(start_rank):
    script = SEEN + "train()\nzmon.phase('embedding')\nNote.apply(x).sum().backward()\nprint(seen, phase())"
    assert run(start_rank, script) == ["['embedding'] embedding"]


def test_backward_within_backward_is_one(start_rank):
    script = (
        SEEN
        + """
from torch.utils.checkpoint import checkpoint
checkpoint(lambda x: Note.apply(x).exp(), x, use_reentrant=True).sum().backward()
print(seen, phase())
"""
    )
    assert run(start_rank, script) == ["['backward'] other"]
