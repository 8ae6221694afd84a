"""Tests of the work of a job relative to the peak of its devices."""

from dataclasses import replace

import pytest

from tests.build import rank_state, step_record
from tests.steps import aligned
from zmon.job.utilization import JobPeaks, RecentWork, StepWork, flops_source, job_peaks, utilization
from zmon.scaling.peaks import DevicePeaks
from zmon.schema.unknown import Unknown

OWN = {"Xeon, 2 processors": DevicePeaks({"float32": 1e12, "bfloat16": 4e12}, 2e10)}
FLOAT32 = {"float32": 1.0}


def on_cpu(rank, host="node-a", **changes):
    return rank_state(rank, host=host, device_name="Xeon, 2 processors", flops_dtypes=FLOAT32, **changes)


def on_gpu(rank, name="NVIDIA H200", **changes):
    return rank_state(rank, device=f"GPU-{rank}", device_name=name, flops_dtypes={"bfloat16": 1.0}, **changes)


def record(step=1, flops=None, traffic=None, mean=None):
    """Return a record of a step of 20 ms."""
    made = step_record(step)
    return replace(made, measures=replace(made.measures, flops=flops, memory_traffic_bytes=traffic), mean=mean)


def test_peak_of_a_job_is_the_sum_over_its_gpus():
    peaks = job_peaks([on_gpu(0), on_gpu(1)], 2, {})
    assert peaks == JobPeaks(pytest.approx(2 * 989.5e12), pytest.approx(2 * 4.8e12))


def test_ranks_share_the_peak_of_their_processors():
    ranks = [on_cpu(0), on_cpu(1), on_cpu(2), on_cpu(3, "node-b")]
    assert job_peaks(ranks, 4, OWN) == JobPeaks(pytest.approx(2e12), pytest.approx(4e10))


def test_ranks_share_the_peak_of_one_gpu():
    ranks = [replace(on_gpu(rank), device="GPU-0") for rank in range(2)]
    assert job_peaks(ranks, 2, {}).flops == pytest.approx(989.5e12)


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (on_gpu(1, "NVIDIA Imaginary 1"), "the peak of NVIDIA Imaginary 1 is unknown: add it to the file"),
        (on_gpu(1, ""), "the peak of the device of rank 1 is unknown"),
        (on_gpu(1, "Tesla T4"), "the peak of Tesla T4 in bfloat16 is unknown"),
        (replace(on_gpu(1), flops_dtypes={}), "in an unknown dtype is unknown"),
    ],
)
def test_peak_is_unknown_if_that_of_one_rank_is(odd, reason):
    peaks = job_peaks([on_gpu(0), odd], 2, {})
    assert isinstance(peaks, Unknown)
    assert reason in peaks.reason


def test_peak_is_unknown_while_a_rank_is_missing():
    """The peak of three ranks is less than that of four: the ratio would be too large."""
    assert isinstance(job_peaks([on_gpu(0), on_gpu(1), on_gpu(2)], 4, {}), Unknown)


def test_memory_bandwidth_may_be_unknown_alone():
    ranks = [replace(on_gpu(0, "Tesla T4"), flops_dtypes={"float16": 1.0})]
    assert job_peaks(ranks, 1, {}) == JobPeaks(pytest.approx(65e12), None)


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


def test_ratios_of_a_job_that_its_operations_limit():
    now = utilization(StepWork(10, 1.0, 4e11, 1e9), "declared", JobPeaks(1e12, 2e10), 0.25)
    assert (now.step_ratio, now.wall_ratio) == (pytest.approx(0.4), 0.25)
    assert now.memory_ratio == pytest.approx(0.05)
    assert (now.roofline_ratio, now.memory_bound) == (pytest.approx(0.4), False)


def test_ratios_of_a_job_that_memory_limits():
    """10 operations for each byte: 2e10 bytes/s allow 2e11 operations per second, a fifth of the peak."""
    now = utilization(StepWork(10, 1.0, 1e11, 1e10), "declared", JobPeaks(1e12, 2e10), None)
    assert now.step_ratio == pytest.approx(0.1)
    assert now.memory_ratio == pytest.approx(0.5)
    assert (now.roofline_ratio, now.memory_bound) == (pytest.approx(0.5), True)


@pytest.mark.parametrize(("traffic", "bandwidth"), [(None, 2e10), (1e9, None), (0.0, 2e10)])
def test_roofline_is_unknown_without_traffic_or_bandwidth(traffic, bandwidth):
    now = utilization(StepWork(10, 1.0, 4e11, traffic), "counted", JobPeaks(1e12, bandwidth), None)
    assert (now.memory_ratio, now.roofline_ratio, now.memory_bound) == (None, None, None)
