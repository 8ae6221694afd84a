"""Tests of the hook that recognizes evaluation.

Evaluation begins with the first forward in eval mode without gradients, and ends when the rank trains again.
"""

from tests.probe.hooks.scripts import run_script

EVALUATE = """
def evaluate(model=model, batch=batch):
    model.eval()
    with torch.no_grad():
        model(batch)
    return activity()
def hooks(*models):  # those that wait for an evaluation or for its end
    parts = [part for each in models or (model,) for part in each.modules()]
    hooks = [hook for part in parts for hook in part._forward_pre_hooks.values()]
    return sum(type(hook).__module__ == "zmon.probe.hooks.evaluation" for hook in hooks)
"""


def test_evaluation_lasts_from_its_first_forward_to_the_next_training(start_rank):
    script = (
        EVALUATE
        + """
train()
model.eval()
print(activity(), hooks())
print(evaluate(), hooks())
model.train()
print(activity(), hooks())
model(batch)
print(activity(), hooks())
"""
    )
    assert run_script(start_rank, script) == ["train 1", "eval 0", "eval 1", "train 0"]


def test_evaluation_before_the_first_step_belongs_to_init(start_rank):
    assert run_script(start_rank, EVALUATE + "print(evaluate(), hooks())") == ["init 0"]


def test_eval_mode_with_gradients_or_in_a_frozen_part_is_training(start_rank):
    script = (
        EVALUATE
        + """
train()
model.eval()
model(batch).sum().backward()
optimizer.step()
print(activity(), steps())
model.train()
model[1].eval()
with torch.no_grad():
    model(batch)
train()
print(activity(), steps(), hooks())
"""
    )
    assert run_script(start_rank, script) == ["train 2", "train 3 0"]


def test_eval_mode_without_a_forward_is_not_evaluation(start_rank):
    script = (
        EVALUATE + "train()\nmodel.eval()\nmodel.train()\nprint(hooks())\nwith torch.inference_mode(): model(batch)"
    )
    assert run_script(start_rank, script + "\nprint(activity())") == ["0", "train"]


def test_activity_that_the_job_marks_is_unchanged(start_rank):
    script = EVALUATE + "train()\nwith zmon.activity('checkpoint'):\n    print(evaluate(), hooks())"
    assert run_script(start_rank, script) == ["checkpoint 0"]


def test_model_inside_ddp_is_recognized_when_called_directly(start_rank):
    script = (
        EVALUATE
        + """
wrapped = torch.nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 2)))
optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
train(wrapped)
wrapped.eval()
with torch.no_grad():
    wrapped.module(batch)
print(activity(), hooks(wrapped))
train(wrapped.train())
print(activity(), evaluate(wrapped), hooks(wrapped))
"""
    )
    assert run_script(start_rank, script, joined=True) == ["eval 0", "train eval 0"]


def test_compiled_model_is_watched_without_extra_compilations(start_rank):
    script = (
        EVALUATE
        + """
from torch._dynamo.utils import counters
compiled = torch.compile(model, backend="eager")
def once():
    train(compiled)
    compiled.eval()
    with torch.no_grad():
        compiled(batch)
    compiled.train()
for explicit in (True, False):
    timeline.explicit_activity = explicit
    torch._dynamo.reset()
    counters.clear()
    for _ in range(4):
        once()
    print(counters["stats"]["unique_graphs"], dict(counters["graph_break"]))
train(compiled)
print(evaluate(compiled), hooks())
"""
    )
    unwatched, watched, last = run_script(start_rank, script)
    assert watched == unwatched
    assert last == "eval 0"


def test_scripted_or_copied_model_works_as_without_zmon(start_rank):
    script = (
        EVALUATE
        + """
train()
model.eval()
print(type(torch.jit.script(model)).__name__, hooks())
scripted = torch.jit.script(nn.Linear(2, 2)).eval()
train(model.train())
model.eval()
copied = copy.deepcopy(model)
train(model.train())
with torch.no_grad():
    copied(batch), scripted(batch)
print(activity(), timeline.ledger.dropped)
"""
    )
    assert run_script(start_rank, script) == ["RecursiveScriptModule 0", "train 0"]


def test_several_models_set_to_eval_mode_are_recognized(start_rank):
    script = (
        EVALUATE
        + """
train()
second = nn.Linear(2, 1)
model.eval()
second.eval()
with torch.no_grad():
    model(batch)
    print(activity())
    second(batch)
print(activity(), hooks(model, second))
model.train(), second.train()
train()
print(activity(), hooks(model, second))
"""
    )
    assert run_script(start_rank, script) == ["eval", "eval 0", "train 0"]
