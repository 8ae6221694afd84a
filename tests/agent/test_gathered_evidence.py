"""Evidence of a rank that may not be able to answer: what there is, and why the rest is missing."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from aiohttp import web

from tests.boxes import eventually
from tests.build import snapshot, waiting
from zmon.agent import evidence
from zmon.agent.stacks import PY_SPY
from zmon.box.reader import BoxReader
from zmon.detectors.stall import Stall

SCRIPT = """
    import time, zmon
    def guilty_line():
        time.sleep(60)
    assert zmon.attach()
    print("attached", flush=True)
    guilty_line()
"""


@pytest.fixture
def rank(start_rank):
    """A rank with a worker server, asleep."""
    started = start_rank(SCRIPT)
    started.says("attached")
    reader = BoxReader(started.box)
    started.socket = reader.identity().socket
    reader.close()
    return started


def gather(pid, socket, py_spy=None):
    """By default what torch's worker server alone can tell."""
    return asyncio.run(evidence.gather(pid, Path(socket), py_spy=py_spy))


def test_stack_names_the_line(rank):
    found = gather(rank.pid, rank.socket)
    assert "guilty_line" in found["stack"]
    assert found["stack_error"] is None
    assert found["pid"] == rank.pid


def test_stack_is_left_out_where_only_what_is_in_flight_is_wanted(rank):
    found = asyncio.run(evidence.gather(rank.pid, Path(rank.socket), stacks=False))
    assert (found["stack"], found["stack_error"]) == (None, "nobody asked for it")
    assert "no process group yet" in found["flight_error"]


def test_socket_is_nobody_elses(rank):
    assert oct(Path(rank.socket).stat().st_mode)[-3:] == "600"


def test_stopped_rank_has_no_stack_and_that_is_said(rank, monkeypatch):
    monkeypatch.setattr(evidence, "TIMEOUT_SECONDS", 0.2)
    rank.signal(signal.SIGSTOP)
    found = gather(rank.pid, rank.socket)
    assert found["stack"] is None
    assert "did not answer within 0.2 s" in found["stack_error"]
    assert found["flight"] is None
    assert "did not answer within 0.2 s" in found["flight_error"]


def test_stack_of_a_stopped_rank_is_read_from_outside(rank):
    rank.signal(signal.SIGSTOP)
    found = gather(rank.pid, rank.socket, PY_SPY)
    assert "guilty_line" in found["stack"]
    assert "did not answer" in found["flight_error"]


def test_dead_rank_has_no_stack_and_that_is_said(rank):
    rank.signal(signal.SIGKILL)
    rank.wait()
    found = gather(rank.pid, rank.socket)
    assert found["stack"] is None
    assert "cannot be asked" in found["stack_error"]
    assert found["flight"] is None
    assert "cannot be asked" in found["flight_error"]
    assert found["wchan"] is None


def test_rank_without_a_server_says_so():
    found = gather(os.getpid(), Path())
    assert "no worker server" in found["stack_error"]
    assert "py-spy is not installed" in found["stack_error"]
    assert (found["flight"], found["flight_error"]) == (None, "the job has no worker server (torch < 2.9?)")


# -- what is in flight -------------------------------------------------------------------------------------

HANGS_IN_BACKWARD = """
    import os, sys, time
    import torch
    import torch.distributed as dist
    import zmon
    assert zmon.attach()
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method="file://" + os.environ["STORE"], rank=rank, world_size=2)

    class Sleepy(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            if rank == 1:
                print("sleeps", flush=True)
                time.sleep(60)
            return gradient

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    data = torch.ones(4, 8)
    for _ in range(3):
        model(data).sum().backward()
    dist.barrier()
    print("hangs", flush=True)
    # Rank 1 never reaches the reducer, as its gradients come after the sleep.
    Sleepy.apply(model(data)).sum().backward()
"""


@pytest.fixture
def ddp(start_rank, tmp_path):
    """Two ranks of DDP over gloo; rank 1 sleeps in backward, rank 0 waits for it in an all_reduce issued from C++."""
    ranks = [start_rank(HANGS_IN_BACKWARD, number, 2, STORE=str(tmp_path / "store")) for number in range(2)]
    ranks[0].says("hangs")
    ranks[1].says("sleeps")
    for rank in ranks:
        reader = BoxReader(rank.box)
        rank.socket = reader.identity().socket
        reader.close()
    return ranks


def test_all_reduce_that_cpp_issued_is_seen_with_its_bytes_and_the_rank_behind_has_none(ddp):
    def hanging():
        found = gather(ddp[0].pid, ddp[0].socket)
        return found if found["flight"].pending else None  # it printed a moment before it got there

    found, behind = eventually(hanging), gather(ddp[1].pid, ddp[1].socket)
    (one,) = found["flight"].pending
    assert (one.group, one.op, one.num_bytes, one.sizes, one.dtypes) == (
        "gloo:0", "all_reduce", 4 * (8 * 8 + 8), ((72,),), ("Float",)
    )  # fmt: skip
    assert found["flight"].last["gloo:0"] == one.sequence - 1
    assert 0 <= one.age_seconds < 30
    assert "in all_reduce" not in found["stack"]  # Python does not know
    assert (behind["flight"].pending, behind["flight_error"]) == ((), None)
    assert behind["flight"].last == found["flight"].last
    assert "in backward" in behind["stack"]


def test_flight_records_alone_name_the_rank_that_others_wait_for(ddp):
    """As if the boxes saw no collective, which is so in a compiled graph."""
    eventually(lambda: gather(ddp[0].pid, ddp[0].socket)["flight"].pending)
    flights = {number: gather(rank.pid, rank.socket)["flight"] for number, rank in enumerate(ddp)}
    states = [waiting(number, in_flight=None, phase="backward", world_size=2) for number in range(2)]
    (blind,) = Stall().detect(snapshot(*states))
    assert (blind.cause, blind.ranks) == ("unknown", ())
    (found,) = Stall().detect(snapshot(*states, flights=flights))
    assert (found.cause, found.ranks) == ("compute_hang", (1,))


def test_rank_whose_native_call_holds_the_interpreter_lock_still_tells_what_is_in_flight(start_rank, monkeypatch):
    """Its stack needs that lock (PythonHandlers.cpp), the flight record does not."""
    monkeypatch.setattr(evidence, "TIMEOUT_SECONDS", 0.5)
    rank = start_rank("""
        import ctypes, zmon
        import torch
        import torch.distributed as dist
        assert zmon.attach()
        dist.init_process_group("gloo", init_method="file://" + __file__ + ".store", rank=0, world_size=1)
        dist.all_reduce(torch.ones(3))
        print("attached", flush=True)
        ctypes.PyDLL(None).sleep(60)
    """)
    rank.says("attached")
    reader = BoxReader(rank.box)

    def told():
        found = gather(rank.pid, reader.identity().socket)
        return found if found["stack"] is None else None  # it printed a moment before it got there

    found = eventually(told)
    assert "holds the interpreter lock" in found["stack_error"]
    assert found["flight"].last == {"gloo:0": 1}
    found = gather(rank.pid, reader.identity().socket, PY_SPY)
    reader.close()
    assert ("<module>" in found["stack"], found["stack_error"]) == (True, None)


class FakeServer:
    """A worker server that answers what the test wants."""

    def __init__(self, **answers):
        self.answers = answers

    async def handle(self, request):
        status, body = self.answers.get(request.match_info["handler"], (404, b"Handler not found"))
        return web.Response(status=status, body=body)

    def gather(self, socket):
        async def main():
            app = web.Application()
            app.add_routes([web.post("/handler/{handler}", self.handle)])
            runner = web.AppRunner(app)
            await runner.setup()
            await web.UnixSite(runner, str(socket)).start()
            try:
                return await evidence.gather(os.getpid(), socket, py_spy=None)
            finally:
                await runner.cleanup()

        return asyncio.run(main())


EMPTY = b'{"pg_config": {"0": {}}, "version": "2.10"}'


def test_torch_without_a_flight_recorder_says_so(tmp_path):
    found = FakeServer(dump_traceback=(200, b"File x")).gather(tmp_path / "socket")
    assert (found["stack"], found["stack_error"]) == ("File x", None)
    assert (found["flight"], found["flight_error"]) == (None, "this torch does not tell")


def test_record_that_is_not_one_is_an_error_in_one_line(tmp_path):
    for number, body in enumerate((b"", b'{"pg_config": {}, "entries": [{', b"\xff", b"[" * 100_000)):
        found = FakeServer(fr_trace_json=(200, body)).gather(tmp_path / f"socket-{number}")
        assert found["flight"] is None
        assert "cannot be understood" in found["flight_error"]
        assert "\n" not in found["flight_error"]


def test_answer_that_never_ends_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "MAX_RECORD_BYTES", 1 << 20)
    found = FakeServer(fr_trace_json=(200, b" " * (3 << 20))).gather(tmp_path / "socket")
    assert (found["flight"], found["flight_error"]) == (None, "the answer to fr_trace_json is longer than 1 MiB")


def test_part_of_the_record_that_is_missing_is_said_beside_the_rest(tmp_path):
    server = FakeServer(fr_trace_json=(200, EMPTY), dump_nccl_trace_json=(500, b"Handler failed"))
    found = server.gather(tmp_path / "socket")
    assert found["flight"].num_pending == 0
    assert found["flight_error"] == "the rank answers dump_nccl_trace_json with 500: Handler failed"
