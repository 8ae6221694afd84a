"""Tests of the hook for optimizers. A step ends after the update of the optimizer."""

import pytest

from tests.probe.hooks.scripts import cases

CASES = """
== update is a step, after any number of batches, but not in another marked activity
with zmon.activity("init"):
    optimizer.step()
print(steps(), activity())
> 0 init
for _ in range(5):
    train()
print(steps(), activity(), phase())
> 5 train other
for _ in range(3):
    for _ in range(4):
        model(batch).sum().backward()
    optimizer.step()
print(steps())
> 8

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
print(steps(), len(calls) > 3, set(phases))
> 3 True {'optimizer'}

== update that raises is not a step
class Failing(torch.optim.SGD):
    def step(self, closure=None):
        if fails:
            raise RuntimeError("out of memory")
        super().step(closure)
optimizer, fails = Failing(model.parameters(), 0.1), False
for fails in (False, True, False):
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
print(steps())
> 4

== update that AMP skips is not a step
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
for bad in (False, True, False):
    optimizer.zero_grad()
    scaler.scale(model(batch).sum() * (float("inf") if bad else 1.0)).backward()
    scaler.step(optimizer)
    scaler.update()
print(steps())
> 2

== round that evaluation interrupts is a step
other = torch.optim.SGD(model.parameters(), 0.1)
for last in (False, False, True):
    train()
    if not last:
        other.step()
print(steps())
> 2
model.eval()
with torch.no_grad():
    model(batch)
print(steps(), activity())
> 3 eval
model.train()
train()
other.step()
print(steps())
> 4

== updates inside marked steps are not counted
train()
for _ in range(3):
    with zmon.step():
        train()
        train()
print(steps())
> 4

== marks of a side thread are not marks of the rank
def side():
    with zmon.step(), zmon.activity("eval"):
        zmon.phase("data")
in_thread(side)
train()
print(steps(), activity(), timeline.explicit_steps, timeline.explicit_phases, timeline.explicit_activity)
> 1 train False False False

== update in a forked worker or thread is not a step
train()
if not os.fork():
    train()
    os._exit(0)
os.wait()
in_thread(train)
train()
from zmon.box.reader import BoxReader
print(steps(), BoxReader(timeline.box.path).last_boundary()[layout.STEPS])
> 2 2

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
print(steps(), phase())
> 10 other

== steps continue after a nested optimizer failed
class Failing(torch.optim.SGD):
    fails = True
    def step(self, closure=None):
        if self.fails:
            raise RuntimeError("no")
        return super().step(closure)
failing = Failing(model.parameters(), 0.1)
try:
    failing.step()
except RuntimeError:
    failing.fails = False
for _ in range(5):
    failing.step()
print(steps())
> 5

== job that trains in another thread is watched
in_thread(lambda: [train() for _ in range(10)])
print(steps(), activity())
> 10 train

== second training thread is not counted as the rank
train()
other = nn.Linear(2, 1)
def beside():
    optimizer = torch.optim.SGD(other.parameters(), 0.1)
    other(batch).sum().backward()
    optimizer.step()
in_thread(beside)
train()
print(steps())
> 2
"""


@pytest.mark.parametrize("case", cases(CASES))
def test_steps(start_rank, case):
    case.check(start_rank)
