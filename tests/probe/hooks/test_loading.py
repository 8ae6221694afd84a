"""Tests of the hook for DataLoader: the wait for a batch is the data phase, and the time after it is forward."""

import pytest

from tests.probe.hooks.scripts import cases

SETS = """
from torch.utils.data import DataLoader, Dataset, IterableDataset
phases, activities = [], []
def note():
    phases.append(phase())
    activities.append(activity())
def noted():
    # Return the phases and the activities in which the data set was read since the last call.
    since_last = list(phases), list(activities)
    phases.clear()
    activities.clear()
    return since_last
class Numbers(Dataset):
    def __len__(self):
        return 3
    def __getitem__(self, index):
        note()
        return torch.tensor(index)
class Stream(IterableDataset):
    def __iter__(self):
        for number in range(3):
            note()
            yield torch.tensor(number)
class Broken(Numbers):
    def __getitem__(self, index):
        if index == 1:
            raise ValueError("bad record")
        return super().__getitem__(index)
"""

CASES = """
== wait for a batch is data, and the time after it is forward
for data_set in (Numbers(), Stream()):
    after = [phase() for _ in DataLoader(data_set)]
    print(noted()[0], after, phase())
> ['data', 'data', 'data'] ['forward', 'forward', 'forward'] forward
> ['data', 'data', 'data'] ['forward', 'forward', 'forward'] forward

== workers do not mark phases
for data_set in (Numbers(), Stream()):
    before = timeline.ledger.times[PHASES.index("data")]
    after = [phase() for _ in DataLoader(data_set, num_workers=1)]
    print(phases, after, steps(), activity(), timeline.ledger.times[PHASES.index("data")] > before)
> [] ['forward', 'forward', 'forward'] 0 init True
> [] ['forward', 'forward', 'forward'] 0 init True

== phase is restored at the end of the data, and after a record that raises
batches = iter(DataLoader(Numbers()))
print(phase())  # > other
for _ in range(3):
    next(batches)
timeline.phase(PHASES.index("other"))
try:
    next(batches)
except StopIteration:
    print(phase())  # > other
for workers in (0, 1):
    batches = iter(DataLoader(Broken(), num_workers=workers))
    next(batches)
    timeline.phase(PHASES.index("other"))
    try:
        next(batches)
    except ValueError:
        print(phase())
> other
> other

== nested loader is in the data phase to its end
class Outer(IterableDataset):
    def __iter__(self):
        for number in DataLoader(Numbers()):
            phases.append(phase())
            yield number
after = [phase() for _ in DataLoader(Outer())]
print(set(phases), set(after))  # > {'data'} {'forward'}

== phases that the job marks are unchanged
zmon.phase('embedding')
for _ in DataLoader(Numbers()): pass
print(set(phases), phase())  # > {'embedding'} embedding

== start of a loader between steps is loader_start until its first batch
for epoch in range(3):
    for _ in DataLoader(Numbers()):
        train()
    print(noted()[1], activity(), steps())
> ['init', 'train', 'train'] train 3
> ['loader_start', 'train', 'train'] train 6
> ['loader_start', 'train', 'train'] train 9

== loader that is started for each batch belongs to the steps
# Its time is part of each step, so that the detectors of slow input and of stragglers see it.
for _ in range(6):
    next(iter(DataLoader(Numbers())))
    train()
print(noted()[1][2:])  # > ['train', 'train', 'train', 'train']

== loader that is empty or fails at its first batch returns to training
train(times=3)
print(list(DataLoader([])), activity())  # > [] train
train(times=3)
try:
    next(iter(DataLoader([1], collate_fn=lambda items: 1 / 0)))
except ZeroDivisionError:
    print(activity())  # > train

== loader started in an evaluation belongs to it
train(times=3)
with zmon.activity('eval'):
    list(DataLoader(Numbers()))
print(noted()[1])  # > ['eval', 'eval', 'eval']
"""


@pytest.mark.parametrize("case", cases(CASES, SETS))
def test_wait_for_a_batch_is_the_data_phase(start_rank, case):
    case.check(start_rank)
