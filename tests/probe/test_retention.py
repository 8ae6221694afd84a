"""Test that the memory of zmon in a rank does not grow with the number of steps."""

import pytest

from tests.probe.hooks.scripts import run_script

MAX_BYTES = 2000  # limit of a whole measurement; one retained integer per step would be 140,000

GROWTH = """
import tracemalloc

def print_growth(work, times, warm_up):
    # Print the bytes by which the memory of zmon grows while the work is done so many times.
    for _ in range(warm_up):
        work()
    gc.collect()
    tracemalloc.start()
    work()
    gc.collect()
    before = tracemalloc.take_snapshot().filter_traces(ours)
    for _ in range(times):
        work()
    gc.collect()
    after = tracemalloc.take_snapshot().filter_traces(ours)
    # without tracemalloc.stop(): a thread of gloo that allocates meanwhile would crash (CPython issue 128679)
    grown = after.compare_to(before, "filename")
    print(sum(entry.size_diff for entry in grown))

ours = [tracemalloc.Filter(True, "*/zmon/*"), tracemalloc.Filter(True, "<zmon*")]
"""

MARKS = """
def work():
    with zmon.step():
        zmon.phase("data")
        zmon.work(samples=32, lookups=7)
        zmon.phase("forward")
        timeline.enter_op(1, 0, 1000, 2000)
        timeline.leave_op()
        issued = timeline.issue()
        timeline.count_op(1, 0, 1000, 2000)
        timeline.wait_op(1, 0, 3000)
        timeline.leave_op(issued)
    zmon.report(loss=0.5)
print_growth(work, times=5000, warm_up=200)
"""

HOOKS = """
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=4)
def work():
    for (features,) in loader:
        optimizer.zero_grad()
        model(features).sum().backward()
        work = dist.all_reduce(model[0].weight.grad, async_op=True)
        dist.all_reduce(model[2].weight.grad)
        work.wait()
        dist.all_reduce(torch.ones(1), async_op=True)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(batch)
    model.train()
print_growth(work, times=300, warm_up=50)
print(works.num_flights())
"""


@pytest.mark.parametrize("work", [MARKS, HOOKS], ids=["marks", "hooks"])
def test_memory_does_not_grow_with_the_number_of_steps(start_rank, work):
    grown, *left = run_script(start_rank, GROWTH + work, joined=work is HOOKS)
    assert int(grown) < MAX_BYTES
    assert left == (["0"] if work is HOOKS else [])  # collectives in flight
