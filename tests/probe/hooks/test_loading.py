"""Waiting for a DataLoader is data, what follows is forward."""

import pytest

from tests.probe.hooks.scripts import run

SETS = """
from torch.utils.data import DataLoader, Dataset, IterableDataset
seen = []
class Numbers(Dataset):
    def __len__(self):
        return 3
    def __getitem__(self, index):
        seen.append(phase())
        return torch.tensor(index)
class Stream(IterableDataset):
    def __iter__(self):
        for number in range(3):
            seen.append(phase())
            yield torch.tensor(number)
class Broken(Numbers):
    def __getitem__(self, index):
        if index == 1:
            raise ValueError("bad record")
        return super().__getitem__(index)
"""


@pytest.mark.parametrize("kind", ["Numbers", "Stream"])
def test_rank_waits_in_data_and_goes_on_in_forward(start_rank, kind):
    script = (
        SETS
        + f"""
after = [phase() for _ in DataLoader({kind}())]
print(seen, after, phase())
"""
    )
    assert run(start_rank, script) == [f"{['data'] * 3} {['forward'] * 3} forward"]


@pytest.mark.parametrize("kind", ["Numbers", "Stream"])
def test_workers_load_and_mark_nothing(start_rank, kind):
    script = (
        SETS
        + f"""
after = [phase() for _ in DataLoader({kind}(), num_workers=1)]
print(seen, after, steps(), activity(), timeline.ledger.times[0] > 0)
"""
    )
    assert run(start_rank, script) == [f"[] {['forward'] * 3} 0 init True"]


def test_end_of_the_data_gives_the_phase_back(start_rank):
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
    assert run(start_rank, script) == ["other", "other"]


@pytest.mark.parametrize("workers", [0, 1])
def test_record_that_raises_gives_the_phase_back(start_rank, workers):
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
    assert run(start_rank, script) == ["other"]


def test_loader_within_a_loader_is_data_to_its_end(start_rank):
    script = (
        SETS
        + """
class Outer(IterableDataset):
    def __iter__(self):
        for number in DataLoader(Numbers()):
            seen.append(phase())
            yield number
after = [phase() for _ in DataLoader(Outer())]
print(set(seen), set(after))
"""
    )
    assert run(start_rank, script) == ["{'data'} {'forward'}"]


def test_phases_that_the_job_names_stay(start_rank):
    script = SETS + "zmon.phase('embedding')\nfor _ in DataLoader(Numbers()): pass\nprint(set(seen), phase())"
    assert run(start_rank, script) == ["{'embedding'} embedding"]
