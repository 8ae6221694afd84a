"""Tests of the evidence gathered from one rank: its stack and its flight record, or the reason for a missing part."""

import asyncio
import contextlib
import os
import signal
import textwrap
from pathlib import Path

import pytest
from aiohttp import web

from tests.boxes import eventually
from tests.build import snapshot, waiting
from tests.conftest import ranks_in
from zmon.agent import evidence
from zmon.agent.stacks import PY_SPY
from zmon.agent.worker_socket import WorkerSocket
from zmon.box.reader import BoxReader
from zmon.detectors.stall import Stall
from zmon.process import process_id, process_stat

SCRIPT = """
    import time, zmon
    def guilty_line():
        time.sleep(60)
    assert zmon.attach()
    print("attached", flush=True)
    guilty_line()
"""


def socket_of(rank):
    """Return the path of the socket that the box of a rank names."""
    with contextlib.closing(BoxReader(rank.box)) as reader:
        return reader.identity().socket


@pytest.fixture
def rank(start_rank):
    """Return a rank that has a worker server and sleeps."""
    started = start_rank(SCRIPT)
    started.says("attached")
    return started


def gather(pid, socket, py_spy=None, **options):
    """Gather evidence, by default from torch's worker server alone."""
    return asyncio.run(evidence.gather(process_id(pid), own_socket(socket), py_spy=py_spy, **options))


def gather_of(rank, py_spy=None):
    """Gather the evidence of a rank."""
    return gather(rank.pid, socket_of(rank), py_spy)


def own_socket(path):
    """Return the socket of a box of this user; an empty path means that the box names none."""
    return WorkerSocket(Path(path), os.geteuid(), str(path))


def test_evidence_of_a_running_rank_is_read_from_a_socket_of_mode_600(rank):
    socket = socket_of(rank)
    assert oct(Path(socket).stat().st_mode)[-3:] == "600"
    answer = gather(rank.pid, socket)
    assert "guilty_line" in answer.stack
    assert (answer.stack_error, answer.pid) == (None, rank.pid)
    without_stacks = gather(rank.pid, socket, stacks=False)
    assert (without_stacks.stack, without_stacks.stack_error) == (None, "not requested")
    assert "no process group yet" in without_stacks.flight_error


def test_stack_of_a_stopped_rank_is_read_by_py_spy_alone(rank, monkeypatch):
    """Its worker server does not answer, so the flight record is missing with a reason."""
    socket = socket_of(rank)
    monkeypatch.setattr(evidence, "TIMEOUT_SECONDS", 0.2)
    rank.signal(signal.SIGSTOP)
    assert eventually(lambda: process_stat(rank.pid).state == "T")
    answer = gather(rank.pid, socket)
    assert_reasons_instead_of_evidence(answer, "did not answer within 0.2 s")
    answer = gather(rank.pid, socket, PY_SPY)
    assert "guilty_line" in answer.stack
    assert "did not answer" in answer.flight_error


def assert_reasons_instead_of_evidence(answer, reason):
    """Check that stack and flight record are missing, both for a reason with this text."""
    assert (answer.stack, answer.flight) == (None, None)
    assert reason in answer.stack_error
    assert reason in answer.flight_error


def test_dead_rank_gives_reasons_instead_of_evidence(rank):
    rank.signal(signal.SIGKILL)
    rank.wait()
    answer = gather_of(rank)
    assert_reasons_instead_of_evidence(answer, "cannot reach the rank's worker server")
    assert answer.wchan is None


def test_rank_without_a_worker_server_gives_reasons_instead_of_evidence():
    answer = gather(os.getpid(), "")
    assert_reasons_instead_of_evidence(answer, "the job has no worker server (torch < 2.9?)")
    assert answer.stack_error.endswith("py-spy is not installed beside the agent")


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


@pytest.fixture(scope="module")
def ddp_ranks(torch_zygote, tmp_path_factory):
    """Yield two DDP ranks over gloo. Rank 1 sleeps in backward; rank 0 waits in an all_reduce issued from C++."""
    folder = tmp_path_factory.mktemp("ddp")
    script = folder / "script.py"
    script.write_text(textwrap.dedent(HANGS_IN_BACKWARD))
    with ranks_in(folder) as start:
        ranks = [start(torch_zygote, script, number, 2, STORE=str(folder / "store")) for number in range(2)]
        ranks[0].says("hangs")
        ranks[1].says("sleeps")
        assert eventually(lambda: gather_of(ranks[0]).flight.pending)  # the rank prints just before the operation
        yield ranks


def test_all_reduce_issued_by_cpp_is_in_flight_with_its_bytes(ddp_ranks):
    answer, behind = map(gather_of, ddp_ranks)
    (pending,) = answer.flight.pending
    assert (pending.group, pending.op, pending.num_bytes, pending.sizes, pending.dtypes) == (
        "gloo:0", "all_reduce", 4 * (8 * 8 + 8), ((72,),), ("Float",)
    )  # fmt: skip
    assert answer.flight.last["gloo:0"] == pending.sequence - 1
    assert 0 <= pending.age_seconds < 30
    assert "in all_reduce" not in answer.stack  # a call from C++ has no Python frame
    assert (behind.flight.pending, behind.flight_error) == ((), None)
    assert behind.flight.last == answer.flight.last
    assert "in backward" in behind.stack


def test_stall_names_the_culprit_from_flight_records_alone(ddp_ranks):
    """The boxes show no collective, as in a job with a compiled graph."""
    flights = {number: gather_of(rank).flight for number, rank in enumerate(ddp_ranks)}
    states = [waiting(number, in_flight=None, phase="backward", world_size=2) for number in range(2)]
    (without_records,) = Stall().detect(snapshot(*states))
    assert (without_records.cause, without_records.ranks) == ("unknown", ())
    (finding,) = Stall().detect(snapshot(*states, flights=flights))
    assert (finding.cause, finding.ranks) == ("compute_hang", (1,))


def test_flight_record_is_read_while_a_native_call_holds_the_interpreter_lock(start_rank, monkeypatch):
    """The worker server needs that lock for the stack (PythonHandlers.cpp), but not for the flight record."""
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
    assert eventually(lambda: gather_of(rank).stack is None)  # the rank prints just before the native call
    answer = gather_of(rank)
    assert "holds the interpreter lock" in answer.stack_error
    assert answer.flight.last == {"gloo:0": 1}
    answer = gather_of(rank, PY_SPY)
    assert "<module>" in answer.stack
    assert answer.stack_error is None


EMPTY = b'{"pg_config": {"0": {}}, "version": "2.10"}'


@pytest.fixture
def gather_from(tmp_path):
    """Return a function that gathers evidence from a worker server with answers by handler, or by handler and query."""

    async def run(**answers):
        async def handle(request):
            handler = request.match_info["handler"]
            of_handler = answers.get(handler, (404, b"Handler not answer"))
            status, body = answers.get(f"{handler}?{request.query_string}", of_handler)
            return web.Response(status=status, body=body)

        app = web.Application()
        app.add_routes([web.post("/handler/{handler}", handle)])
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, str(tmp_path / "socket")).start()
        try:
            return await evidence.gather(process_id(os.getpid()), own_socket(tmp_path / "socket"), py_spy=None)
        finally:
            await runner.cleanup()

    return run


async def test_missing_flight_recorder_has_a_reason(gather_from):
    answer = await gather_from(dump_traceback=(200, b"File x"))
    assert (answer.stack, answer.stack_error) == ("File x", None)
    assert (answer.flight, answer.flight_error) == (None, "this torch does not offer it")


@pytest.mark.parametrize("body", [b"", b'{"pg_config": {}, "entries": [{', b"\xff", b"[" * 100_000])
async def test_invalid_record_is_a_single_line_error(gather_from, body):
    answer = await gather_from(fr_trace_json=(200, body))
    assert answer.flight is None
    assert "cannot be understood" in answer.flight_error
    assert "\n" not in answer.flight_error


async def test_record_above_the_size_limit_is_refused(gather_from, monkeypatch):
    monkeypatch.setattr(evidence, "MAX_RECORD_BYTES", 1 << 20)
    answer = await gather_from(fr_trace_json=(200, b" " * (3 << 20)))
    assert (answer.flight, answer.flight_error) == (None, "the answer to fr_trace_json is longer than 1 MiB")


async def test_record_of_each_backend_is_asked_for(gather_from):
    """Torch 2.15 has a record for each; an older one ignores the query, so that all answers are the same."""
    record = EMPTY.replace(b"}}", b'}}, "entries": [%s]')
    entry = (
        b'{"process_group": ["0"], "profiling_name": "%s:all_reduce", "collective_seq_id": 7, "state": "scheduled",'
        b' "retired": false, "time_created_ns": 1}'
    )
    gloo, nccl2 = (record % (entry % backend) for backend in (b"gloo", b"nccl2"))
    answer = await gather_from(**{"fr_trace_json": (200, gloo), "fr_trace_json?backend=nccl2": (200, nccl2)})
    assert {pending.group for pending in answer.flight.pending} == {"gloo:0", "nccl2:0"}
    assert answer.flight_error is None


async def test_failed_part_of_the_record_is_reported_beside_the_rest(gather_from):
    answer = await gather_from(fr_trace_json=(200, EMPTY), dump_nccl_trace_json=(500, b"Handler failed"))
    assert answer.flight.num_pending == 0
    assert answer.flight_error == "the rank answers dump_nccl_trace_json with 500: Handler failed"
