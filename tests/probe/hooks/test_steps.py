"""Tests of the hook for optimizers. A step ends after the update of the optimizer."""

import functools

import pytest

from tests.probe.hooks.scripts import cases

START = """
class Failing(torch.optim.SGD):
    fails = True
    def step(self, closure=None):
        if self.fails:
            raise RuntimeError("out of memory")
        super().step(closure)
"""

CASES = """
== update is a step, after any number of batches, but not in another marked activity
with zmon.activity("init"):
    optimizer.step()
print(steps(), activity())  # > 0 init
train(times=5)
print(steps(), activity(), phase())  # > 5 train other
for _ in range(3):
    for _ in range(4):
        model(batch).sum().backward()
    optimizer.step()
print(steps())  # > 8

== closure that runs many times is a single step
lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=5)
calls, phases = [], []
def closure():
    lbfgs.zero_grad()
    loss = model(batch).pow(2).sum()
    loss.backward()
    calls.append(1)
    phases.append(phase())
    return loss
for _ in range(3):
    lbfgs.step(closure)
print(steps(), len(calls) > 3, set(phases))  # > 3 True {'optimizer'}

== update that raises is not a step
optimizer = Failing(model.parameters(), 0.1)
for fails in (False, True, False):
    optimizer.fails = fails
    try:
        train()
    except RuntimeError:
        print("caught", steps())
print(steps())
> caught 1
> 2

== two optimizers with a scheduler are a single step per round
other = torch.optim.Adam(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(other, 1)
for _ in range(4):
    train()
    other.step()
    scheduler.step()
print(steps())  # > 4

== update that AMP skips is not a step
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
for bad in (False, True, False):
    optimizer.zero_grad()
    scaler.scale(model(batch).sum() * (float("inf") if bad else 1.0)).backward()
    scaler.step(optimizer)
    scaler.update()
print(steps())  # > 2

== round that evaluation interrupts is a step
other = torch.optim.SGD(model.parameters(), 0.1)
for last in (False, False, True):
    train()
    if not last:
        other.step()
print(steps())  # > 2
evaluate()
print(steps(), activity())  # > 3 eval
model.train()
train()
other.step()
print(steps())  # > 4

== updates inside marked steps are not counted
train()
for _ in range(3):
    with zmon.step():
        train(times=2)
print(steps())  # > 4

== marks of a side thread are not marks of the rank
def side():
    with zmon.step(), zmon.activity("eval"):
        zmon.phase("data")
in_thread(side)
train()
print(steps(), activity(), timeline.explicit_steps, timeline.explicit_phases, timeline.explicit_activity)
> 1 train False False False

== update that creates the state of an optimizer, to load or save a checkpoint, is not a step
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
adam = torch.optim.Adam(model.parameters())
print(len(get_optimizer_state_dict(model, adam)["state"]), activity(), steps())  # > 6 init 0
train(times=3)
print(activity(), steps())  # > train 3
late = torch.optim.Adam(model.parameters())
optimizer.zero_grad()
get_optimizer_state_dict(model, late)
print(steps())  # > 3
train()
print(steps())  # > 4

== update in a forked worker is not a step
train()
if not os.fork():
    train()
    os._exit(0)
os.wait()
train()
from zmon.box.reader import BoxReader
print(steps(), BoxReader(timeline.box.path).last_boundary()[layout.STEPS])  # > 2 2

== optimizer that calls other optimizers is a single step
# Examples are ZeroRedundancyOptimizer, TorchRec's CombinedOptimizer and sharpness-aware optimizers.
class Outer(torch.optim.Optimizer):
    def __init__(self, inner):
        self.inner = inner
        super().__init__(inner[0].param_groups, {})
    def step(self, closure=None):
        for optimizer in self.inner:
            optimizer.step()
outer = Outer([optimizer, torch.optim.Adam(model.parameters())])
for _ in range(10):
    outer.zero_grad()
    model(batch).sum().backward()
    outer.step()
print(steps(), phase())  # > 10 other

== job that trains in a thread per step, per epoch, and in its own again, has all its steps
for _ in range(3):
    in_thread(train)
print(steps(), activity(), phase())  # > 3 train other
pools = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(3)]
for _ in range(2):
    for pool in pools:
        pool.submit(train, times=4).result()
train()
print(steps())  # > 28

== thread that trained before marks its step from the beginning
pools = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(2)]
for pool in pools * 2:
    pool.submit(train).result()
phases = []
def noting():
    optimizer.zero_grad()
    model(batch).sum().backward(inputs=list(model.parameters()))
    phases.append(timeline.acts_for_rank())
    optimizer.step()
for pool in pools:
    pool.submit(noting).result()
print(steps(), phases)  # > 6 [True, True]

== several optimizers in a thread per step are a single step per round
other = torch.optim.Adam(model.parameters())
def both():
    train()
    other.step()
both()
for _ in range(4):
    in_thread(both)
print(steps())  # > 5

== epochs in threads with an evaluation between them are training again
def epoch():
    train(model.train(), times=2)
    evaluate()
pools = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(3)]
for pool in pools:
    pool.submit(epoch).result()
    print(steps(), activity())
    pool.submit(train).result()
    print(steps(), activity())
> 2 eval
> 3 train
> 5 eval
> 6 train
> 8 eval
> 9 train

== epochs in threads with an optimizer each are watched once the last thread has ended
def epoch():
    fresh = torch.optim.Adam(model.parameters())
    optimizers.append(fresh)
    for _ in range(5):
        model(batch).sum().backward()
        fresh.step()
optimizers = []
for _ in range(3):
    in_thread(epoch)
print(activity(), steps())  # > train 15

== marked steps in a thread per step have all their numbers
pools = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(3)]
def marked(number):
    with zmon.step(number):
        train()
marked(1)
for number in range(2, 8):
    pools[number % 3].submit(marked, number).result()
print(steps(), timeline.step)  # > 7 8

== second training thread is not counted as the rank
train()
other = nn.Linear(2, 1)
def beside():
    optimizer = torch.optim.SGD(other.parameters(), 0.1)
    for _ in range(3):
        other(batch).sum().backward()
        optimizer.step()
in_thread(beside)
train()
print(steps(), timeline.acts_for_rank())  # > 2 True

== helper thread that calls the model does not take over
train()
answers = []
def help():
    model(batch).sum().backward()
    answers.append(timeline.acts_for_rank())
in_thread(help)
print(answers, timeline.acts_for_rank())  # > [False] True
train()
print(steps())  # > 2

== update in another thread while the rank is in a collective does not take over
train()
assert timeline.enter_op(0, 0, 8, 8)  # the first op in the first group, with 8 bytes in each direction
in_thread(train)
print(steps(), timeline.acts_for_rank())
timeline.leave_op()
train()
print(steps())
> 1 True
> 2
"""


@pytest.mark.parametrize("case", cases(CASES, START))
def test_update_of_the_optimizers_ends_a_step(start_rank, case):
    case.check(start_rank)


@pytest.mark.parametrize("case", [case for case in cases(CASES, START) if "thread" in case.id])
def test_threads_that_train_are_the_same_in_the_python_edge(start_rank, case):
    case.check(functools.partial(start_rank, ZMON_EDGE="python"))
