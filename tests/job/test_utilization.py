"""Tests of the work of a job relative to the peak of its devices."""

from dataclasses import replace

import pytest

from tests.build import rank_state, step_record
from tests.steps import aligned
from zmon.job.utilization import JobPeaks, RecentWork, StepWork, flops_source, job_peaks, utilization
from zmon.scaling.peaks import DevicePeaks
from zmon.schema.unknown import Unknown

MEASURED = {"Xeon, 2 processors": DevicePeaks({"float32": 1e12, "bfloat16": 4e12}, 2e10)}
FLOAT32 = {"float32": 1.0}


def on_cpu(rank, host="node-a", **changes):
    """Return a rank that computes in float32 on the processors of a host."""
    return rank_state(rank, host=host, device_name="Xeon, 2 processors", flops_dtypes=FLOAT32, **changes)


def on_gpu(rank, name="NVIDIA H200", **changes):
    """Return a rank that computes in bfloat16 on a GPU of its own."""
    return rank_state(rank, device=f"GPU-{rank}", device_name=name, flops_dtypes={"bfloat16": 1.0}, **changes)


def record(step=1, flops=None, traffic=None, mean=None):
    """Return a record of a step of 20 ms."""
    made = step_record(step)
    return replace(made, measures=replace(made.measures, flops=flops, memory_traffic_bytes=traffic), mean=mean)


PEAKS = {
    "two GPUs": ([on_gpu(0), on_gpu(1)], 2 * 989.5e12, 2 * 4.8e12),
    "two ranks share a GPU": ([replace(on_gpu(rank), device="GPU-0") for rank in range(2)], 989.5e12, 4.8e12),
    "ranks share processors": ([on_cpu(0), on_cpu(1), on_cpu(2), on_cpu(3, "node-b")], 2e12, 4e10),
    "the bandwidth is unknown": ([replace(on_gpu(0, "Tesla T4"), flops_dtypes={"float16": 1.0})], 65e12, None),
}


@pytest.mark.parametrize(("ranks", "flops", "bandwidth"), PEAKS.values(), ids=PEAKS)
def test_peak_of_a_job_is_the_sum_over_its_devices(ranks, flops, bandwidth):
    peaks = job_peaks(ranks, len(ranks), MEASURED)
    assert peaks == JobPeaks(pytest.approx(flops), bandwidth and pytest.approx(bandwidth))


@pytest.mark.parametrize(
    ("ranks", "reason"),
    [
        ([on_gpu(1, "NVIDIA Imaginary 1")], "the peak of NVIDIA Imaginary 1 is unknown: add it to the file"),
        ([on_gpu(1, "")], "the peak of the device of rank 1 is unknown"),
        ([on_gpu(1, "Tesla T4")], "the peak of Tesla T4 in bfloat16 is unknown"),
        ([replace(on_gpu(1), flops_dtypes={})], "in an unknown dtype is unknown"),
        ([], "no agent reported these ranks"),  # the peak of fewer ranks is less, so the ratio would be too large
    ],
)
def test_peak_is_unknown_if_that_of_one_rank_is(ranks, reason):
    peaks = job_peaks([on_gpu(0), *ranks], 2, {})
    assert isinstance(peaks, Unknown)
    assert reason in peaks.reason


@pytest.mark.parametrize(
    ("sources", "expected"),
    [(("declared", "declared"), "declared"), (("declared", "counted"), "counted"), (("newer", "counted"), "newer")],
)
def test_source_is_the_least_certain_of_the_ranks(sources, expected):
    assert flops_source([rank_state(rank, flops_source=source) for rank, source in enumerate(sources)]) == expected


def test_source_is_unknown_with_the_reason_of_the_rank():
    ranks = [rank_state(0, flops_source="declared"), rank_state(1, uncounted="12 % of the step in my::op")]
    assert flops_source(ranks) == Unknown("12 % of the step in my::op")
    assert "zmon.work(flops=" in flops_source([rank_state(0)]).reason


def test_recent_work_adds_up_all_ranks_and_the_steps_that_each_stands_for():
    work = RecentWork()
    mean = record(flops=3_000_000_000_000, traffic=50).measures
    work.add([aligned(1, [record(1, 10**12, 100), record(1, 2 * 10**12, 200)])])
    work.add([aligned(9, [record(9, 10**12, 100, mean), record(9, 10**12, 100, mean)], stands_for=8)])
    total = work.total
    assert total.steps == 9
    assert total.seconds == pytest.approx(9 * 0.020)
    assert total.flops == pytest.approx(3e12 + 8 * 6e12)
    assert total.memory_traffic == pytest.approx(300 + 8 * 100)


def test_step_with_a_rank_of_unknown_work_is_left_out():
    work = RecentWork()
    work.add([aligned(1, [record(1, 10**12), record(1)])])
    assert work.total is None
    work.add([aligned(2, [record(2, 10**12), record(2, 10**12)])])
    assert (work.total.flops, work.total.memory_traffic) == (2e12, None)


LIMITS = {  # operations and bytes of memory traffic in a second, and the bandwidth of the memory → ratios
    "operations limit": (4e11, 1e9, 2e10, 0.05, 0.4, False),
    # At 10 operations per byte, the memory allows a fifth of the peak.
    "memory limits": (1e11, 1e10, 2e10, 0.5, 0.5, True),
    "unknown traffic": (4e11, None, 2e10, None, None, None),
    "unknown bandwidth": (4e11, 1e9, None, None, None, None),
    "no traffic": (4e11, 0.0, 2e10, None, None, None),
}


@pytest.mark.parametrize(
    ("flops", "traffic", "bandwidth", "memory_ratio", "roofline_ratio", "memory_bound"), LIMITS.values(), ids=LIMITS
)
def test_utilization_is_relative_to_the_peaks(flops, traffic, bandwidth, memory_ratio, roofline_ratio, memory_bound):
    four_seconds = StepWork(10, 4.0, 4 * flops, traffic and 4 * traffic)
    now = utilization(four_seconds, "declared", JobPeaks(1e12, bandwidth), 0.25)
    assert (now.step_ratio, now.wall_ratio) == (pytest.approx(flops / 1e12), 0.25)
    assert now.memory_ratio == (memory_ratio and pytest.approx(memory_ratio))
    assert now.roofline_ratio == (roofline_ratio and pytest.approx(roofline_ratio))
    assert now.memory_bound is memory_bound
