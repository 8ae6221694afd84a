"""Tests of the hook that recognizes evaluation: it begins with the first forward in eval mode without gradients."""

import pytest

from tests.probe.hooks.scripts import cases

HOOKS = """
def hooks(*models):
    # Return the number of hooks in the models that wait for an evaluation or for its end.
    modules = [module for root in models or (model,) for module in root.modules()]
    hooks = [hook for module in modules for hook in module._forward_pre_hooks.values()]
    return sum(type(hook).__module__ == "zmon.probe.hooks.evaluation" for hook in hooks)
"""

CASES = """
== evaluation before the first step belongs to init, and a later one lasts from its first forward to the next training
print(evaluate(), hooks())  # > init 0
train(model.train())
model.eval()
print(activity(), hooks())  # > train 1
print(evaluate(), hooks())  # > eval 0
model.train()
print(activity(), hooks())  # > eval 1
model(batch)
print(activity(), hooks())  # > train 0

== eval mode with gradients, in a frozen part or without a forward is training
train()
model.eval()
model(batch).sum().backward()
optimizer.step()
print(activity(), steps())  # > train 2
model.train()
model[1].eval()
with torch.no_grad():
    model(batch)
train()
print(activity(), steps(), hooks())  # > train 3 0
model.eval()
model.train()
print(hooks())  # > 0
with torch.inference_mode(): model(batch)
print(activity())  # > train

== model at the address of another one that was never called is watched
train()
short_lived = [nn.Linear(2, 2).eval() for _ in range(20)]  # another object may take the address of some
addresses = {id(module) for module in short_lived}
del short_lived
later = next(module for module in [nn.Linear(2, 2) for _ in range(100)] if id(module) in addresses)
print(evaluate(later, torch.ones(1, 2)))  # > eval

== evaluation without no_grad begins once nothing has used the gradients of several forwards
def evaluate_with_gradients(model=model):
    model.eval()
    return [(model(batch), activity())[1] for _ in range(9)]
train(model.train())
print(*evaluate_with_gradients(), steps(), hooks())  # > train train train train train train train eval eval 1 0
train(model.train())
print(activity(), steps())  # > train 2
wrapped = nn.DataParallel(model)  # the model inside is called in each call of the wrapper
print(*evaluate_with_gradients(wrapped))  # > train train train train train train train eval eval

== evaluation in training mode begins once nothing has used several batches of a data set that is not trained on
from torch.utils.data import DataLoader, TensorDataset
def loader(): return DataLoader(TensorDataset(torch.ones(9, 2)))
for_training, for_test = loader(), loader()
batches = iter(for_training)
def train_on_next():
    model(next(batches)[0].expand(4, 2)).sum().backward()
    optimizer.step()
    return activity()
print(train_on_next(), train_on_next())  # > train train
print(*(activity() for _ in for_test), steps())  # > train train train train train train train eval eval 2
next(batches)
print(activity())  # > train
print(train_on_next(), steps())  # > train 3
print(*(activity() for _ in for_test))  # > train train train train train train train eval eval
train()
print(activity(), steps())  # > train 4

== batches that are loaded together and trained on later are no evaluation
from torch.utils.data import DataLoader, TensorDataset
data_set = TensorDataset(torch.ones(20, 2))
for _ in range(2):
    for (rows,) in [*DataLoader(data_set)]:
        model(rows.expand(4, 2)).sum().backward()
    optimizer.step()
    print(activity(), steps())
> train 1
> train 2
print({activity() for _ in DataLoader(data_set)})  # > {'train'}

== batches of two data sets that are trained on together are no evaluation
from torch.utils.data import DataLoader, TensorDataset
labelled, unlabelled = (TensorDataset(torch.ones(12, 2)) for _ in range(2))
for (rows,), (others,) in zip(DataLoader(labelled), DataLoader(unlabelled)):
    (model(rows.expand(4, 2)) + model(others.expand(4, 2))).sum().backward()
optimizer.step()
print(activity(), {activity() for _ in DataLoader(unlabelled)}, steps())  # > train {'train'} 1

== forward in eval mode whose gradients are used is training, as in adversarial training
train(model.train())
for _ in range(2):
    model.eval()
    for _ in range(10):  # the attack compares two forwards, as in TRADES
        torch.autograd.grad((model(batch) - model(2 * batch)).sum(), list(model.parameters()), allow_unused=True)
        print(end="" if activity() == "train" else "wrong ")
    train(model.train())
print(activity(), steps())  # > train 3
model[0].eval()  # a frozen part
for _ in range(9):
    for _ in range(2):  # gradient accumulation
        model(batch).sum().backward()
    optimizer.step()
print(activity(), steps(), hooks())  # > train 12 1

== update of the statistics of an average of weights is an evaluation, in training mode and without gradients
from torch.optim import swa_utils
from torch.optim.swa_utils import AveragedModel, update_bn
average = AveragedModel(model)
def batches():
    yield batch
    print(activity())
    yield batch
update_bn(batches(), average)
print(activity())
> init
> init
train()
update_bn(batches(), average)
swa_utils.update_bn(batches(), model=average)
print(activity(), steps())
> eval
> eval
> eval 1
train()
print(activity(), steps())  # > train 2
with zmon.activity('checkpoint'):
    update_bn(batches(), average)
in_thread(lambda: update_bn(batches(), average))
print(activity())
> checkpoint
> train
> train

== activity that the job marks is unchanged
train()
with zmon.activity('checkpoint'):
    print(evaluate(), hooks())  # > checkpoint 0

== compiled model is watched without extra compilations
from torch._dynamo.utils import counters
compiled = torch.compile(model, backend="eager")
def compilations(explicit):
    timeline.explicit_activity = explicit
    torch._dynamo.reset()
    counters.clear()
    for _ in range(4):
        train(compiled)
        evaluate(compiled)
        compiled.train()
    return counters["stats"]["unique_graphs"], dict(counters["graph_break"])
print(compilations(True) == compilations(False))  # > True
train(compiled)
print(evaluate(compiled), hooks())  # > eval 0

== scripted or copied model works as without zmon
train()
model.eval()
print(type(torch.jit.script(model)).__name__, hooks())  # > RecursiveScriptModule 0
scripted = torch.jit.script(nn.Linear(2, 2)).eval()
train(model.train())
model.eval()
copied = copy.deepcopy(model)
train(model.train())
with torch.no_grad():
    copied(batch), scripted(batch)
print(activity(), timeline.ledger.dropped)  # > train 0

== several models set to eval mode are recognized
train()
second = nn.Linear(2, 1)
model.eval()
second.eval()
with torch.no_grad():
    model(batch)
    print(activity())  # > eval
    second(batch)
print(activity(), hooks(model, second))  # > eval 0
model.train(), second.train()
train()
print(activity(), hooks(model, second))  # > train 0
"""

JOINED = """
== model inside DDP is recognized when called directly
wrapped = torch.nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 2)))
optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
train(wrapped)
wrapped.eval()
print(evaluate(wrapped.module), hooks(wrapped))  # > eval 0
train(wrapped.train())
print(activity(), evaluate(wrapped), hooks(wrapped))  # > train eval 0
"""


@pytest.mark.parametrize("case", [*cases(CASES, HOOKS), *cases(JOINED, HOOKS, joined=True)])
def test_evaluation_begins_and_ends_with_the_use_of_the_model(start_rank, case):
    case.check(start_rank)
