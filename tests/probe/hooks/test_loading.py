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
