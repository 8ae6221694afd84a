"""The script of two ranks that issue every collective and count its bytes by hand; test_collectives runs it."""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import zmon
from zmon.box.reader import BoxReader

RANK = int(os.environ["RANK"])
OUT = Path(sys.argv[0]).parent
LATE_FLOATS = 77  # of the all-reduce in which rank 0 waits for rank 1
FLOAT_BYTES = 4
counted = {}  # by op: the number of calls, and the bytes sent and received
extras = {}  # other notes for the tests, by name


def count(op, sent, received):
    """Count a collective by hand, given the numbers of floats that it sends and receives."""
    calls, sent_bytes, received_bytes = counted.get(op, (0, 0, 0))
    counted[op] = [calls + 1, sent_bytes + sent * FLOAT_BYTES, received_bytes + received * FLOAT_BYTES]


def floats(number):
    """Return a tensor of this number of floats."""
    return torch.ones(number)


def wait_until(condition):
    """Wait until the condition is true, or for ten seconds."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


def every_collective():
    """Issue every collective, in a step."""
    with zmon.step():
        zmon.phase("forward")
        # Uneven splits of rows with 6 floats: rank 0 keeps 3 rows and sends 5, and rank 1 sends 1 and keeps 2.
        sent, received = ([3, 5], [3, 1]) if RANK == 0 else ([1, 2], [5, 2])
        dist.all_to_all_single(torch.empty(sum(received), 6), torch.ones(sum(sent), 6), received, sent)
        count("all_to_all", 6 * sum(sent), 6 * sum(received))
        dist.all_to_all_single(output=floats(4), input=floats(4))
        count("all_to_all", 4, 4)

        dist.all_to_all(input_tensor_list=[floats(4), floats(4)], output_tensor_list=[floats(4), floats(4)])
        count("all_to_all", 8, 8)

        dist.all_reduce(floats(1000))
        count("all_reduce", 1000, 1000)
        dist.all_reduce(op=dist.ReduceOp.MAX, tensor=floats(10))
        count("all_reduce", 10, 10)

        dist.broadcast(floats(30), src=1)
        count("broadcast", 30 * (RANK == 1), 30 * (RANK == 0))
        dist.broadcast(floats(31), group_src=0)
        count("broadcast", 31 * (RANK == 0), 31 * (RANK == 1))

        dist.all_gather([floats(5), floats(5)], floats(5))
        count("all_gather", 5, 10)
        for name in ("all_gather_into_tensor", "all_gather_single"):  # the old function calls the new function
            if hasattr(dist, name):
                getattr(dist, name)(floats(14), floats(7))
                count("all_gather", 7, 14)
        for name in ("reduce_scatter_tensor", "reduce_scatter_single"):
            if hasattr(dist, name):
                getattr(dist, name)(floats(6), floats(12))
                count("reduce_scatter", 12, 6)

        dist.reduce(floats(8), 0)
        count("reduce", 8, 8 * (RANK == 0))
        dist.gather(floats(9), [floats(9), floats(9)] if RANK == 0 else None)
        count("gather", 9, 18 * (RANK == 0))
        dist.scatter(floats(9), [floats(9), floats(9)] if RANK == 1 else None, src=1)
        count("scatter", 18 * (RANK == 1), 9)
        dist.barrier()
        count("barrier", 0, 0)

        if RANK == 0:
            dist.send(floats(3), 1)
            count("send", 3, 0)
        else:
            dist.recv(floats(3), 0)
            count("recv", 0, 3)


def asynchronous_collective():
    """Issue an asynchronous collective, which is counted with its bytes at the call."""
    handle = dist.all_reduce(floats(2000), async_op=True)
    handle.wait()
    count("all_reduce", 2000, 2000)


def collectives_of_groups():
    """Issue collectives in two groups: one of both ranks, and one of rank 1 alone."""
    both, single = dist.new_group([0, 1]), dist.new_group([1])
    for _ in range(3):
        dist.all_reduce(floats(1), group=both)
        count("all_reduce", 1, 1)
    if RANK == 1:
        dist.all_reduce(floats(2), group=single)
        count("all_reduce", 2, 2)
    extras["groups"] = {"both": both.group_name, "single": single.group_name if RANK == 1 else None}


def late_rank():
    """Let rank 1 come late to a collective. Before that, it reads the box of rank 0, which waits for it."""
    if RANK == 1:
        watched = BoxReader(Path(os.environ["ZMON_BOX_DIR"]) / "job/0/rank-0.box")
        num_bytes = 2 * LATE_FLOATS * FLOAT_BYTES  # in both directions
        wait_until(lambda: watched.now().op == "all_reduce" and watched.now().num_bytes == num_bytes)
        now = watched.now()
        extras["peer"] = [now.op, now.num_bytes, watched.groups()[now.group][0]]
        watched.close()
        time.sleep(0.2)
    dist.all_reduce(floats(LATE_FLOATS))
    count("all_reduce", LATE_FLOATS, LATE_FLOATS)


def late_rank_of_an_asynchronous_collective():
    """Let rank 1 come late to an asynchronous collective. Each rank works for 50 ms between the call and the wait."""
    with zmon.step():
        dist.barrier()
        count("barrier", 0, 0)
        if RANK == 1:
            time.sleep(0.2)
        work = dist.all_reduce(floats(78), async_op=True)
        count("all_reduce", 78, 78)
        time.sleep(0.05)
        work.wait()


def invalid_call():
    """Issue a call for which torch raises an error. The rank is in no collective after it."""
    try:
        dist.all_reduce("no tensor")
    except (TypeError, AttributeError, ValueError) as error:
        extras["error"] = type(error).__name__
    extras["after error"] = zmon.probe.current._in_op


def main():
    """Issue the collectives of three steps and between them, and write what was counted by hand."""
    assert zmon.attach()
    dist.init_process_group("gloo", init_method=f"file://{OUT}/store", rank=RANK, world_size=2)
    every_collective()
    asynchronous_collective()
    collectives_of_groups()
    late_rank()
    late_rank_of_an_asynchronous_collective()
    invalid_call()
    # A call with a timeout is counted too.
    dist.barrier(timeout=None)
    count("barrier", 0, 0)
    with zmon.step():  # the box has the totals up to the end of the last step
        pass
    dist.destroy_process_group()
    (OUT / f"noted-{RANK}.json").write_text(json.dumps({"counted": counted, **extras}))


main()
