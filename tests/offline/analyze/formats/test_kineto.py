"""Tests of the reader of Chrome traces: real ones of gloo, others as Kineto writes them on GPUs, and bad files."""

import contextlib
import gzip
import json
import random
from pathlib import Path

import pytest

from tests.steps import by_step
from zmon.errors import UsageError
from zmon.offline.analyze.formats import kineto
from zmon.offline.analyze.formats.kineto_parts import op_name

RECORDED = Path(__file__).parents[1] / "recorded" / "kineto"
MS = 1000.0  # a trace is in microseconds


def event(name, begin, end, cat="cpu_op", tid=1, **args):
    """Return an event of a trace. `begin` and `end` are in ms."""
    return {"ph": "X", "cat": cat, "name": name, "ts": begin * MS, "dur": (end - begin) * MS, "tid": tid, "args": args}


def mark(name, begin, end, cat="user_annotation", tid=1):
    """Return a mark of the profiler, such as that of a step or of a collective."""
    return event(name, begin, end, cat, tid)


def trace(tmp_path, *events, rank=0, world_size=1, name=None):
    """Write the trace of a rank, and return its path."""
    content = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": world_size}, "traceEvents": events}
    path = tmp_path / (name or f"rank{rank}.json")
    path.write_text(json.dumps(content))
    return path


def step_of(tmp_path, *events):
    """Return the measures of one step of 100 ms, in ms, without what is 0: phases, exposed ops."""
    table = kineto.read([trace(tmp_path, mark("ProfilerStep#7", 0, 100), *events)])
    measures = by_step(table)[0, 0][7].measures
    phases = {phase: round(seconds * 1000, 3) for phase, seconds in measures.phases.items()}
    return phases, {op: round(totals.exposed_seconds * 1000, 3) for op, totals in measures.ops.items()}


def test_recorded_steps_have_self_time_and_exposed_time_that_sum_to_them():
    table = kineto.read(sorted(RECORDED.iterdir()))
    for records in by_step(table).values():
        assert len(records) == 28
        for record in records.values():
            assert record.measures.self_seconds + record.measures.exposed_seconds == pytest.approx(record.duration)
    waits, slow = (by_step(table)[0, rank][5].measures for rank in (0, 1))
    assert waits.phases["forward"] == pytest.approx(0.1, abs=0.01)
    assert waits.ops["all_reduce"].exposed_seconds == pytest.approx(0.2, abs=0.01)
    assert slow.phases["forward"] == pytest.approx(0.3, abs=0.01)
    assert slow.ops["all_reduce"].exposed_seconds < 0.01


def launch(at, correlation, tid=1):
    """Return the launch of a kernel at `at` ms. The kernel has the same `correlation`."""
    return event("cudaLaunchKernel", at, at + 0.01, "cuda_runtime", tid, correlation=correlation)


def kernel(name, begin, end, tid=7, **args):
    """Return a kernel on stream `tid` of a GPU."""
    return event(name, begin, end, "kernel", tid, **args)


LAYER = mark("DistributedDataParallel.forward", 0, 80), event("aten::mm", 0, 10), event("c10d::allreduce_", 10, 60)
ON_CPU = {
    "communication behind operators is hidden": (
        [mark("gloo:all_reduce", 10, 60, tid=9), event("aten::mm", 20, 50)],
        {"forward": 30.0, "other": 50.0}, {"all_reduce": 20.0},
    ),
    "layer that waits inside hides nothing": (  # only the operators in it work
        [*LAYER, mark("gloo:all_reduce", 10, 60, tid=9)], {"forward": 30.0, "other": 20.0}, {"all_reduce": 50.0},
    ),
    "wait for a tensor is no work": (
        [event("_c10d_functional::wait_tensor", 10, 60), mark("gloo:all_gather", 10, 60, tid=9)],
        {"other": 50.0}, {"all_gather": 50.0},
    ),
    "loader counts as data even while others communicate": (
        [mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 40),
         mark("gloo:broadcast", 0, 50, tid=9)],
        {"data": 40.0, "other": 50.0}, {"broadcast": 10.0},
    ),
    "phases are those that the profiler marks": (
        [event("aten::linear", 0, 30), event("autograd::engine::evaluate_function: Mm", 30, 70, tid=2),
         mark("Optimizer.step#SGD.step", 70, 90), event("aten::add_", 72, 80)],
        {"forward": 30.0, "backward": 40.0, "optimizer": 20.0, "other": 10.0}, {},
    ),
}  # fmt: skip
ON_GPU = {
    "kernels of NCCL are exposed where no other kernel runs": (
        [kernel("sm90_gemm", 10, 50), kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", 30, 90, 20),
         mark("nccl:all_reduce", 5, 6), event("aten::mm", 0, 100)],
        {"other": 60.0}, {"all_reduce": 40.0},
    ),
    "described kernel has the name of its collective": (  # an all-to-all runs as sends and receives
        [kernel("ncclDevKernel_SendRecv", 0, 10, 20, **{"Collective name": "all_to_allv"}), kernel("gemm", 10, 90)],
        {"other": 90.0}, {"all_to_all": 10.0},
    ),
    "kernel belongs to the phase in which it was launched": (
        [launch(1, 1), kernel("gemm", 10, 30, correlation=1),
         event("autograd::engine::evaluate_function: Mm", 2, 4, tid=2), launch(3, 2, tid=2), launch(3, 3, tid=1),
         kernel("gemm", 30, 60, correlation=2), kernel("gemm", 60, 65, correlation=3),
         mark("Optimizer.step#Adam.step", 5, 6), launch(5.5, 4), kernel("adam", 65, 75, correlation=4)],
        {"forward": 25.0, "backward": 30.0, "optimizer": 10.0, "other": 35.0}, {},
    ),
    "kernel has the name of the operation that launched it": (  # an older torch does not describe the kernel
        [mark("nccl-lazy:all_to_all", 1, 2), launch(1.5, 1), event("c10d::allreduce_", 3, 4), launch(3.5, 2),
         kernel("ncclKernel_SendRecv_RING", 10, 20, 20, correlation=1),
         kernel("ncclKernel_AllReduce_RING", 20, 25, 20, correlation=2),
         kernel("ncclKernel_SendRecv_RING", 30, 40, 20, correlation=3)],
        {"other": 75.0}, {"all_to_all": 10.0, "all_reduce": 5.0, "send_recv": 10.0},
    ),
    "loader costs time only while the GPU has no work": (
        [mark("enumerate(DataLoader)#_Iter.__next__", 0, 40), kernel("gemm", 0, 30)],
        {"data": 10.0, "other": 90.0}, {},
    ),
}  # fmt: skip
STEPS = ON_CPU | ON_GPU


@pytest.mark.parametrize(("events", "phases", "ops"), STEPS.values(), ids=STEPS)
def test_step_has_phases_and_exposed_operations(tmp_path, events, phases, ops):
    assert step_of(tmp_path, *events) == (phases, ops)


def test_bytes_are_those_of_the_described_collectives(tmp_path):
    described = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "BFloat16"}
    events = (
        mark("ProfilerStep#1", 0, 10),
        mark("gloo:all_reduce", 1, 2),
        event("record_param_comms", 1, 2, **described),
    )
    totals = by_step(kineto.read([trace(tmp_path, *events)]))[0, 0][1].measures.ops["all_reduce"]
    assert (totals.sent_bytes, totals.received_bytes) == (2000, 2000)


def test_steps_of_the_device_count_if_the_trace_has_them(tmp_path):
    events = (
        mark("ProfilerStep#1", 0, 10), mark("ProfilerStep#2", 10, 20),
        mark("ProfilerStep#1", 5, 45, "gpu_user_annotation", 7),
        mark("ProfilerStep#2", 45, 85, "gpu_user_annotation", 7),
        event("gemm", 5, 40, "kernel", 7), event("gemm", 45, 80, "kernel", 7),
    )  # fmt: skip
    records = by_step(kineto.read([trace(tmp_path, *events)]))[0, 0]
    assert [round(record.duration, 3) for record in records.values()] == [0.04, 0.04]


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("gloo:all_reduce", "all_reduce"), ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("_allgather_base", "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16", "reduce_scatter"), ("ncclKernel_Broadcast_RING", "broadcast"),
        ("alltoall_base", "all_to_all"), ("ncclDevKernel_SendRecv(x)", "send_recv"), ("gloo:barrier", "barrier"),
        ("ncclDevKernel_Reduce_Sum_f32", "reduce"), ("123", "unknown"),
    ],
)  # fmt: skip
def test_name_of_an_operation_is_understood(name, op):
    assert op_name(name) == op


def lists_of_events(tmp_path, *names):
    """Write the same events to files with these names, without the rank that a profiler adds; return the paths."""
    events = [mark("ProfilerStep#1", 0, 10), mark("gloo:all_reduce", 1, 2, tid=2)]
    for name in names:
        (tmp_path / name).write_text(json.dumps(events))
    return [tmp_path / name for name in names]


def test_list_of_events_is_read_as_the_rank_in_its_name(tmp_path):
    table = kineto.read(lists_of_events(tmp_path, "trace_rank0.json", "trace_rank1.json"))
    assert sorted(by_step(table)) == [(0, 0), (0, 1)]


def test_time_in_the_name_of_a_lone_trace_is_no_rank(tmp_path):
    """`tensorboard_trace_handler` writes such a name; a job without a process group has no rank in its trace."""
    table = kineto.read(lists_of_events(tmp_path, "node-0_1234.1732900000123456789.pt.trace.json"))
    assert list(by_step(table)) == [(0, 0)]


def test_trace_without_a_rank_among_others_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"a\.json does not say its rank"):
        kineto.read(lists_of_events(tmp_path, "a.json", "b.json"))


def test_traces_of_some_ranks_are_numbered_with_a_note(tmp_path):
    events = mark("ProfilerStep#1", 0, 10), mark("gloo:all_reduce", 1, 2, tid=2)
    table = kineto.read([trace(tmp_path, *events, rank=rank, world_size=8) for rank in (2, 5)])
    assert sorted(by_step(table)) == [(0, 0), (0, 1)]
    assert "traces of 2 of 8 ranks: 2, 5; they are numbered 0 to 1" in table.notes[0]


STEP = mark("ProfilerStep#1", 0, 10)


@pytest.mark.parametrize(
    ("traces", "message"),
    [
        ([(STEP, {}), (STEP, {"name": "again.json"})], "are of rank 0"),
        (
            [(STEP, {"rank": 0, "world_size": 2}), (STEP, {"rank": 1, "world_size": 4})],
            "several jobs: 2 ranks, 4 ranks",
        ),
        ([(event("aten::mm", 0, 1), {})], r"no ProfilerStep marks: call profiler\.step\(\)"),
    ],
    ids=["a rank twice", "two jobs", "no steps"],
)
def test_traces_that_are_no_job_are_refused(tmp_path, traces, message):
    paths = [trace(tmp_path, only_event, **options) for only_event, options in traces]
    with pytest.raises(UsageError, match=message):
        kineto.read(paths)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[1]", b'{"traceEvents": 1}', b'{"traceEvents": [{"ts": "x"}]}', b'{"traceEvents": [', b"\xff\xfe",
        b'{"traceEvents": []}', b'{"traceEvents": [{"ph": "X", "name": "ProfilerStep#1", "dur": -5}]}', b"[" * 100_000,
        b'{"traceEvents": [], "distributedInfo": {"rank": "x"}}',
    ],
)  # fmt: skip
def test_damaged_trace_is_refused(tmp_path, data):
    for path, written in ((tmp_path / "rank0.json", data), (tmp_path / "rank0.json.gz", gzip.compress(data))):
        path.write_bytes(written)
        with pytest.raises(UsageError):
            kineto.read([path])


def test_packed_trace_cut_or_changed_anywhere_is_read_or_refused(tmp_path):
    whole = (RECORDED / "rank0.pt.trace.json.gz").read_bytes()
    path = tmp_path / "rank0.json.gz"
    chance = random.Random(2)
    for number in range(40):
        damaged = bytearray(whole[: chance.randrange(1, len(whole))] if number % 2 else whole)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(damaged))
        with contextlib.suppress(UsageError):
            kineto.read([path])
