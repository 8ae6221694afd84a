"""Tests of functional collectives. They are counted at the call; the wait is at the first use of their result."""

from tests.probe.hooks.scripts import run_script


def test_functional_collectives_are_counted_with_their_bytes(start_rank):
    script = """
import torch.distributed._functional_collectives as functional
with zmon.step():
    reduced = functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD)
    print(works.num_flights(), float((reduced + 1)[0]), works.num_flights())
    waited = functional.wait_tensor(functional.all_reduce(torch.ones(4), "sum", group=dist.group.WORLD))
    gather = getattr(functional, "all_gather_single", functional.all_gather_tensor)
    print(float(gather(torch.ones(5), 0, dist.group.WORLD).sum()))
    print(float(functional.broadcast(torch.ones(6), 0, dist.group.WORLD).sum()))
print(counts("all_reduce"), counts("all_gather"), counts("broadcast"))
del reduced, waited
gc.collect()
print(works.num_flights(), timeline.ledger.dropped)
"""
    assert run_script(start_rank, script, joined=True) == [
        "1 2.0 0", "5.0", "6.0", "[2, 32, 32] [1, 20, 20] [1, 24, 0]", "0 0",
    ]  # fmt: skip


def test_collective_in_a_compiled_function_is_compiled_as_without_zmon(start_rank):
    script = """
from torch._dynamo.utils import counters
@torch.compile(backend="eager")
def reduced(x):
    dist.all_reduce(x)
    return x + 1
for _ in range(3):
    result = reduced(torch.ones(3))
print(float(result[0]), counters["stats"]["unique_graphs"] <= 2)
"""
    assert run_script(start_rank, script, joined=True) == ["2.0 True"]
