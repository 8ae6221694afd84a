"""Tests of asynchronous and functional collectives, which are exposed during the wait and in flight from the call."""

import pytest

from tests.probe.hooks.scripts import cases, run_script

WAYS = {
    "wait": "work.wait()",
    "wait twice": "work.wait(); work.wait()",
    "future": "work.get_future().wait()",
    "future and work": "future = work.get_future(); future.wait(); work.wait(); future.wait()",
    "with a timeout": "import datetime; work.wait(datetime.timedelta(seconds=20))",
}


def test_wait_is_exposed_and_time_in_flight_is_counted_once_in_each_way_to_wait(start_rank):
    script = f"""
def times():
    return [timeline.ledger.times[first + OPS.index("all_reduce")] for first in (layout.EXPOSED, layout.INFLIGHT)]
for way in {[*WAYS.values()]!r}:
    before = times()
    with zmon.step():
        dist.barrier()
        tensor = torch.ones(1000)
        if dist.get_rank():
            time.sleep(0.3)
        work = dist.all_reduce(tensor, async_op=True)
        assert isinstance(work, dist.Work)
        exec(way)
        assert tensor[0] == 2
    work = future = None
    gc.collect()
    print(*((after - ns) / 1e9 for after, ns in zip(times(), before)), works.num_flights())
print(counts("all_reduce")[0])
"""
    (*early, count), (*late, _) = run_script(start_rank, script, joined=True, num_ranks=2)
    assert int(count) == len(WAYS)
    for way, early_line, late_line in zip(WAYS, early, late, strict=True):
        exposed, in_flight, num_left = map(float, early_line.split())
        late_exposed, *_ = map(float, late_line.split())
        assert 0.2 < exposed <= in_flight < exposed + 0.2, way
        assert num_left == 0, way
        assert late_exposed < exposed / 2, way


CASES = """
== wait shows the awaited collective and not the last collective
# Ranks that wait for different collectives must not seem to disagree about the last collective.
from zmon.box import layout, live
tensors = [torch.ones(n) for n in (3, 4)]
pending = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
for work in pending:
    work.wait()
    print(*live.entered(tuple(timeline._live), layout.ENTERED)[2:])
> 1 24
> 2 32

== work without a wait is released
for _ in range(20):
    work = dist.all_reduce(torch.ones(3), async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
future = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda done: done.value())
future.wait()
del work, future
gc.collect()
print(counts("all_reduce"), works.num_flights())  # > [21, 252, 252] 0

== rank is in no collective after an async_op that is neither true nor false
class Neither:
    def __bool__(self):
        raise ArithmeticError
try:
    dist.all_reduce(torch.ones(3), async_op=Neither())
except (ArithmeticError, TypeError):  # torch accepts booleans only
    print(timeline._in_op)  # > False
"""

# They are counted at the call; the wait is at the first use of their result.
FUNCTIONAL = """
== functional collectives are counted with their bytes
import torch.distributed._functional_collectives as functional
with zmon.step():
    reduced = functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD)
    print(works.num_flights(), float((reduced + 1)[0]), works.num_flights())  # > 1 2.0 0
    waited = functional.wait_tensor(functional.all_reduce(torch.ones(4), "sum", group=dist.group.WORLD))
    gather = getattr(functional, "all_gather_single", functional.all_gather_tensor)
    print(float(gather(torch.ones(5), 0, dist.group.WORLD).sum()))  # > 5.0
    print(float(functional.broadcast(torch.ones(6), 0, dist.group.WORLD).sum()))  # > 6.0
print(counts("all_reduce"), counts("all_gather"), counts("broadcast"))  # > [2, 32, 32] [1, 20, 20] [1, 24, 0]
del reduced, waited
gc.collect()
print(works.num_flights(), timeline.ledger.dropped)  # > 0 0

== collective in a compiled function is compiled as without zmon
from torch._dynamo.utils import counters
@torch.compile(backend="eager")
def reduced(x):
    dist.all_reduce(x)
    return x + 1
for _ in range(3):
    result = reduced(torch.ones(3))
print(float(result[0]), counters["stats"]["unique_graphs"] <= 2)  # > 2.0 True
"""

OF_TWO_RANKS = """
== batched and coalesced collectives are counted once each
other = 1 - dist.get_rank()
sent, received = torch.ones(3), torch.zeros(3)
ops = [dist.P2POp(dist.isend, sent, other), dist.P2POp(dist.irecv, received, other)]
for work in dist.batch_isend_irecv(ops):
    work.wait()
request = dist.isend(sent, other)
dist.irecv(received, other).wait()
request.wait()
dist.send(sent, other) if other else dist.recv(received, other)
dist.recv(received, other) if other else dist.send(sent, other)
print(counts("send"), counts("recv"), bool(received[0] == 1))  # > [3, 36, 0] [3, 0, 36] True
for asynchronous in (False, True):
    with dist._coalescing_manager(async_ops=asynchronous) as manager:
        for _ in range(3):
            dist.all_reduce(received)
    if asynchronous:
        manager.wait()
print(counts("all_reduce"), float(received[0]), works.num_flights(), timeline.ledger.dropped)  # > [6, 72, 72] 4.0 0 0

== change of the dimension by which a DTensor is sharded is one all-to-all, and a wrong call gets the error of torch
import logging
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, _collective_utils, distribute_tensor
logging.disable()  # torch warns that gloo gathers instead
warnings.simplefilter("ignore")
sharded = distribute_tensor(torch.ones(4, 2), init_device_mesh("cpu", (2,)), [Shard(0)])
print(sharded.redistribute(placements=[Shard(1)]).to_local().shape, counts("all_to_all"))
> torch.Size([4, 1]) [1, 16, 16]
try:
    _collective_utils.shard_dim_alltoall(torch.ones(2, 2), 0, 1, "no mesh", 0)
except AttributeError as error:
    print("device_type" in str(error), timeline._in_op)  # > True False
"""


@pytest.mark.parametrize(
    "case", [*cases(CASES + FUNCTIONAL, joined=True), *cases(OF_TWO_RANKS, joined=True, num_ranks=2)]
)
def test_asynchronous_collective_is_counted_once_and_released(start_rank, case):
    case.check(start_rank)
