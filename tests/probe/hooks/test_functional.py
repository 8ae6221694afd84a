"""Tests of functional collectives. They are counted at the call; the wait is at the first use of their result."""

import pytest

from tests.probe.hooks.scripts import cases

CASES = """
== functional collectives are counted with their bytes
import torch.distributed._functional_collectives as functional
with zmon.step():
    reduced = functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD)
    print(works.num_flights(), float((reduced + 1)[0]), works.num_flights())
> 1 2.0 0
    waited = functional.wait_tensor(functional.all_reduce(torch.ones(4), "sum", group=dist.group.WORLD))
    gather = getattr(functional, "all_gather_single", functional.all_gather_tensor)
    print(float(gather(torch.ones(5), 0, dist.group.WORLD).sum()))
> 5.0
    print(float(functional.broadcast(torch.ones(6), 0, dist.group.WORLD).sum()))
> 6.0
print(counts("all_reduce"), counts("all_gather"), counts("broadcast"))
> [2, 32, 32] [1, 20, 20] [1, 24, 0]
del reduced, waited
gc.collect()
print(works.num_flights(), timeline.ledger.dropped)
> 0 0

== collective in a compiled function is compiled as without zmon
from torch._dynamo.utils import counters
@torch.compile(backend="eager")
def reduced(x):
    dist.all_reduce(x)
    return x + 1
for _ in range(3):
    result = reduced(torch.ones(3))
print(float(result[0]), counters["stats"]["unique_graphs"] <= 2)
> 2.0 True
"""


@pytest.mark.parametrize("case", cases(CASES, joined=True))
def test_functional_collectives(start_rank, case):
    case.check(start_rank)
