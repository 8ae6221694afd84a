"""Tests of asynchronous collectives.

They are exposed during the wait, and in flight from the call to the end of the wait.
"""

import pytest

from tests.probe.hooks.scripts import run_script

WAYS = {
    "wait": "work.wait()",
    "wait twice": "work.wait(); work.wait()",
    "future": "work.get_future().wait()",
    "future and work": "future = work.get_future(); future.wait(); work.wait(); future.wait()",
    "with a timeout": "import datetime; work.wait(datetime.timedelta(seconds=20))",
}


QUICK = ("wait", "future and work")


@pytest.mark.parametrize("way", [pytest.param(way, marks=() if way in QUICK else pytest.mark.slow) for way in WAYS])
def test_wait_is_exposed_and_time_in_flight_is_counted_once(start_rank, way):
    script = f"""
with zmon.step():
    dist.barrier()
    tensor = torch.ones(1000)
    if dist.get_rank():
        time.sleep(0.3)
    work = dist.all_reduce(tensor, async_op=True)
    assert isinstance(work, dist.Work)
    {WAYS[way]}
    assert tensor[0] == 2
times, n = timeline.ledger.times, OPS.index("all_reduce")
work = None
future = None
gc.collect()
exposed, in_flight = times[len(PHASES) + n], times[len(PHASES) + len(OPS) + n]
print(exposed / 1e9, in_flight / 1e9, counts("all_reduce")[0], works.num_flights())
"""
    (early,), (late,) = run_script(start_rank, script, joined=True, ranks=2)
    exposed, in_flight, count, left = map(float, early.split())
    assert 0.2 < exposed <= in_flight < exposed + 0.2
    assert (count, left) == (1, 0)
    assert float(late.split()[0]) < exposed / 2


def test_wait_shows_the_awaited_collective_and_not_the_last_collective(start_rank):
    """Ranks that wait for different collectives must not seem to disagree about the last collective."""
    script = """
from zmon.box import layout, live
tensors = [torch.ones(n) for n in (3, 4)]
pending = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
for work in pending:
    work.wait()
    print(*live.entered(tuple(timeline._live), layout.ENTERED)[2:])
"""
    assert run_script(start_rank, script, joined=True) == ["1 24", "2 32"]


def test_work_without_a_wait_is_released(start_rank):
    script = """
for _ in range(20):
    work = dist.all_reduce(torch.ones(3), async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
future = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda done: done.value())
future.wait()
del work, future
gc.collect()
print(counts("all_reduce"), works.num_flights())
"""
    assert run_script(start_rank, script, joined=True) == ["[21, 252, 252] 0"]


def test_batched_and_coalesced_collectives_are_counted_once_each(start_rank):
    script = """
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
print(counts("send"), counts("recv"), bool(received[0] == 1))
for asynchronous in (False, True):
    with dist._coalescing_manager(async_ops=asynchronous) as manager:
        for _ in range(3):
            dist.all_reduce(received)
    if asynchronous:
        manager.wait()
print(counts("all_reduce"), float(received[0]), works.num_flights(), timeline.ledger.dropped)
"""
    expected = ["[3, 36, 0] [3, 0, 36] True", "[6, 72, 72] 4.0 0 0"]
    assert run_script(start_rank, script, joined=True, ranks=2) == [expected, expected]


def test_rank_is_in_no_collective_after_an_async_op_that_is_neither_true_nor_false(start_rank):
    script = """
class Neither:
    def __bool__(self):
        raise ArithmeticError
try:
    dist.all_reduce(torch.ones(3), async_op=Neither())
except (ArithmeticError, TypeError):  # torch accepts booleans only
    print(timeline._in_op)
"""
    assert run_script(start_rank, script, joined=True) == ["False"]
