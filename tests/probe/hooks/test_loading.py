"""Tests of the hook for DataLoader. The wait for a batch is the data phase; the time after it is forward."""

import pytest

from tests.probe.hooks.scripts import run_script

SETS = """
from torch.utils.data import DataLoader, Dataset, IterableDataset
phases = []
class Numbers(Dataset):
    def __len__(self):
        return 3
    def __getitem__(self, index):
        phases.append(phase())
        return torch.tensor(index)
class Stream(IterableDataset):
    def __iter__(self):
        for number in range(3):
            phases.append(phase())
            yield torch.tensor(number)
class Broken(Numbers):
    def __getitem__(self, index):
        if index == 1:
            raise ValueError("bad record")
        return super().__getitem__(index)
"""


@pytest.mark.parametrize("kind", ["Numbers", "Stream"])
def test_wait_for_a_batch_is_data_and_the_time_after_a_batch_is_forward(start_rank, kind):
    script = (
        SETS
        + f"""
after = [phase() for _ in DataLoader({kind}())]
print(phases, after, phase())
"""
    )
    assert run_script(start_rank, script) == [f"{['data'] * 3} {['forward'] * 3} forward"]


@pytest.mark.parametrize("kind", ["Numbers", "Stream"])
def test_workers_do_not_mark_phases(start_rank, kind):
    script = (
        SETS
        + f"""
after = [phase() for _ in DataLoader({kind}(), num_workers=1)]
print(phases, after, steps(), activity(), timeline.ledger.times[0] > 0)
"""
    )
    assert run_script(start_rank, script) == [f"[] {['forward'] * 3} 0 init True"]


def test_end_of_the_data_restores_the_phase(start_rank):
    script = (
        SETS
        + """
batches = iter(DataLoader(Numbers()))
print(phase())
for _ in range(3):
    next(batches)
timeline.phase(PHASES.index("other"))
try:
    next(batches)
except StopIteration:
    print(phase())
"""
    )
    assert run_script(start_rank, script) == ["other", "other"]


@pytest.mark.parametrize("workers", [0, 1])
def test_data_record_that_raises_restores_the_phase(start_rank, workers):
    script = (
        SETS
        + f"""
batches = iter(DataLoader(Broken(), num_workers={workers}))
next(batches)
timeline.phase(PHASES.index("other"))
try:
    next(batches)
except ValueError:
    print(phase())
"""
    )
    assert run_script(start_rank, script) == ["other"]


def test_nested_loader_is_in_the_data_phase_to_its_end(start_rank):
    script = (
        SETS
        + """
class Outer(IterableDataset):
    def __iter__(self):
        for number in DataLoader(Numbers()):
            phases.append(phase())
            yield number
after = [phase() for _ in DataLoader(Outer())]
print(set(phases), set(after))
"""
    )
    assert run_script(start_rank, script) == ["{'data'} {'forward'}"]


def test_phases_that_the_job_marks_are_unchanged(start_rank):
    script = SETS + "zmon.phase('embedding')\nfor _ in DataLoader(Numbers()): pass\nprint(set(phases), phase())"
    assert run_script(start_rank, script) == ["{'embedding'} embedding"]


STARTS = """
from torch.utils.data import DataLoader, Dataset, IterableDataset
class Numbers(Dataset):
    def __len__(self):
        return 3
    def __getitem__(self, index):
        starts.append(activity())
        return torch.tensor(index)
starts = []
"""


def test_start_of_a_loader_between_steps_is_loader_start_until_its_first_batch(start_rank):
    script = (
        STARTS
        + """
for epoch in range(3):
    for _ in DataLoader(Numbers()):
        train()
    print(starts, activity(), steps())
    starts.clear()
"""
    )
    first = "['init', 'train', 'train'] train 3"
    assert run_script(start_rank, script) == [
        first, "['loader_start', 'train', 'train'] train 6", "['loader_start', 'train', 'train'] train 9",
    ]  # fmt: skip


def test_loader_that_is_started_for_each_batch_belongs_to_the_steps(start_rank):
    """Its time is part of each step, where `input_bound` and stragglers are judged."""
    script = STARTS + "for _ in range(6):\n    next(iter(DataLoader(Numbers())))\n    train()\nprint(starts[2:])"
    assert run_script(start_rank, script) == [str(["train"] * 4)]


def test_empty_loader_returns_to_training(start_rank):
    script = STARTS + "train(); train(); train()\nprint(list(DataLoader([])), activity())"
    assert run_script(start_rank, script) == ["[] train"]


def test_loader_that_fails_at_its_first_batch_returns_to_training(start_rank):
    script = """
from torch.utils.data import DataLoader
train(); train(); train()
try:
    next(iter(DataLoader([1], collate_fn=lambda items: 1 / 0)))
except ZeroDivisionError:
    print(activity())
"""
    assert run_script(start_rank, script) == ["train"]


def test_loader_started_in_an_evaluation_belongs_to_it(start_rank):
    script = (
        STARTS
        + "train(); train(); train()\nwith zmon.activity('eval'):\n    list(DataLoader(Numbers()))\nprint(starts)"
    )
    assert run_script(start_rank, script) == [str(["eval"] * 3)]
