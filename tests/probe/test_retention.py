"""Test that the memory of zmon in a rank does not grow with the number of steps; edge/test_leaks.py has the C edge."""

from tests.probe.hooks.scripts import run_script

MAX_BYTES = 2000  # limit of a whole measurement; one retained integer per step would be 8,400

SCRIPT = """
import tracemalloc
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=4)

def work(times):
    for _ in range(times):
        for (features,) in loader:
            optimizer.zero_grad()
            model(features).sum().backward()
            handle = dist.all_reduce(model[0].weight.grad, async_op=True)
            dist.all_reduce(model[2].weight.grad)
            handle.wait()
            dist.all_reduce(torch.ones(1), async_op=True)
            optimizer.step()
        zmon.report(loss=0.5)
        evaluate()
        model.train()
    gc.collect()

def snapshot():
    ours = [tracemalloc.Filter(True, "*/zmon/*"), tracemalloc.Filter(True, "<zmon*")]
    return tracemalloc.take_snapshot().filter_traces(ours)

work(times=50)
tracemalloc.start()
work(times=1)
before = snapshot()
work(times=300)
# without tracemalloc.stop(): a thread of gloo that allocates meanwhile would crash (CPython issue 128679)
print(sum(entry.size_diff for entry in snapshot().compare_to(before, "filename")), works.num_flights())
"""


def test_memory_does_not_grow_with_the_number_of_steps(start_rank):
    ((grown, num_flights),) = (line.split() for line in run_script(start_rank, SCRIPT, joined=True))
    assert int(grown) < MAX_BYTES
    assert num_flights == "0"
