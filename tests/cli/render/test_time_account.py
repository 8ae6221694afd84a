"""Tests of the table of time categories and of the lines below it. Unknown values have the reason of the hub."""

from dataclasses import replace

import pytest

from tests.cli.render.build import text_of
from zmon.cli.render.time_account import time_table
from zmon.schema.curve import Efficiency, Point
from zmon.schema.job import ExpectedStep, GpuActivity, JobView, Utilization

JOB = JobView(
    job_id="job", attempt=0, world_size=4, ranks_seen=4, state="train", step=604, step_seconds=0.02,
    step_seconds_p95=0.03, samples_per_second=1600.0, report={},
    time={"forward": 5400.0, "all_to_all": 1800.0, "eval": 1.0}, hosts=("node-a",), labels={}, findings=(),
    gpu_seconds={"forward": 21600.0, "all_to_all": 7200.0, "eval": 4.0}, goodput_ratio=0.875,
)  # fmt: skip


def lines_of(job):
    """Return the lines of the table of a job and those below it."""
    return [line.rstrip() for line in text_of(time_table(job), width=250).splitlines()]


def test_largest_category_is_first_and_small_categories_share_a_row_that_names_them():
    title, head, first, second, small, *_ = lines_of(JOB)
    assert title == "where 2 h went"
    assert head.split() == ["category", "time", "share", "GPU-hours"]
    assert first.split() == ["forward", "1", "h", "30", "min", "75.0%", "6"]
    assert second.split() == ["all_to_all", "30", "min", "25.0%", "2"]
    assert small.split()[:2] == ["eval", "1.0"]


def test_hours_of_a_large_job_are_written_out():
    job = replace(JOB, gpu_seconds={"forward": 3600 * 12345.0, "all_to_all": 3600 * 99.94})
    assert [line.split()[-1] for line in lines_of(job)[2:4]] == ["12,345", "99.9"]


def test_gpu_hours_are_unknown_if_hub_sends_no_gpu_seconds():
    assert lines_of(replace(JOB, gpu_seconds={}))[2].split()[-1] == "unknown"


def test_job_that_has_not_trained_has_no_table():
    assert lines_of(replace(JOB, time={})) == ["where the time went is unknown so far"]


GOODPUT = "goodput: 87.5% of the time was spent in steps whose work was kept"
FROM_ONE_RANK = Efficiency(
    ratio=0.8, scaling="weak", name="ranker", recorded=0.95,
    reference=Point(ranks=1, samples=512, seconds=0.02, by="zmon scaling", recorded=1.8e9),
)  # fmt: skip
EFFICIENCY = "efficiency: 80.0%, weak scaling from 1 rank × 512 samples (baseline ranker); recorded at this size:"
LONGER = ExpectedStep(
    by="predicted", name="ranker", seconds=0.041, causes={"own": 0.030, "all_to_all": 0.011}, now_seconds=0.058,
    now_causes={"own": 0.031, "all_to_all": 0.027},
)  # fmt: skip
EQUAL = replace(LONGER, by="recorded", now_seconds=0.0415, now_causes={"own": 0.0275, "all_to_all": 0.014})
COUNTED = Utilization(source="counted", flops_per_second=2e12, peak_flops=1e13, step_ratio=0.2, wall_ratio=0.15)
LIMITED = replace(COUNTED, memory_ratio=0.5, roofline_ratio=0.5, memory_bound=True, uncounted="1.0% in mine::op")
PEAK = "peak: 20.0% of the peak of its devices in steps (counted operations), 15.0% over wall-clock time"
LINES = {  # changes of the job, and a line below its table
    "even ranks": ({"time": {"forward": 97.0, "imbalance": 3.0}}, GOODPUT),
    "uneven ranks": (  # the work of a step is kept although most ranks waited for one of them
        {"time": {"forward": 40.0, "imbalance": 60.0}},
        f"{GOODPUT}; 60.0% was waiting for the slowest rank (imbalance)",
    ),
    "goodput unknown": ({"goodput_ratio": None}, "goodput: unknown"),
    "goodput unknown, with a reason": (
        {"goodput_ratio": None, "goodput_unknown": "no checkpoint was seen"}, "goodput: unknown, no checkpoint was seen"
    ),
    "efficiency": ({"efficiency": FROM_ONE_RANK}, f"{EFFICIENCY} 95.0%"),
    "efficiency at a new size": ({"efficiency": replace(FROM_ONE_RANK, recorded=None)}, f"{EFFICIENCY} unknown"),
    "efficiency unknown": ({}, "efficiency: unknown"),
    "efficiency unknown, with a reason": (
        {"efficiency_unknown": "it does not run"}, "efficiency: unknown, it does not run"
    ),
    "peak": ({"utilization": COUNTED}, PEAK),
    "peak, and what limits the job": (
        {"utilization": LIMITED},
        f"{PEAK}, 50.0% of the memory bandwidth, 50.0% of the roofline, which memory bandwidth limits; "
        "not counted: 1.0% in mine::op",
    ),
    "peak unknown": ({"utilization_unknown": "no peak of Imaginary 1"}, "peak: unknown, no peak of Imaginary 1"),
    "GPUs": (
        {"gpu_activity": GpuActivity(tensor_ratio=0.431, tensor_wall_ratio=0.402, memory_ratio=0.21)},
        "GPUs: tensor cores are busy 43.1% of the time in steps, 40.2% of wall-clock time, "
        "21.0% of the memory bandwidth is used",
    ),
    "GPUs that measure less": (
        {"gpu_activity": GpuActivity(tensor_ratio=0.431, tensor_wall_ratio=None)},
        "GPUs: tensor cores are busy 43.1% of the time in steps",
    ),
    "rate inferred from the loader": (
        {"samples_source": "loader"}, "samples/s: 1,600 (inferred from the DataLoader)"
    ),
    "rate inferred from the model": (
        {"samples_source": "model"}, "samples/s: 1,600 (inferred from the input of the model)"
    ),
    "rate inferred by a newer zmon": ({"samples_source": "new"}, "samples/s: 1,600 (inferred from new)"),
    "step longer than predicted": (
        {"expected": LONGER},
        "expected step time: 41 ms (predicted from other sizes of ranker), now 58 ms: all_to_all 16 ms longer",
    ),
    "step as long as recorded": (
        {"expected": EQUAL}, "expected step time: 41 ms (recorded as ranker), now 41.5 ms"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "line"), LINES.values(), ids=LINES)
def test_line_below_the_table_has_what_is_known_of_the_job(changes, line):
    assert line in lines_of(replace(JOB, **changes))


@pytest.mark.parametrize(("source", "rate"), [("declared", 512.0), ("", 512.0), ("loader", None)])
def test_reported_or_unknown_rate_has_no_source(source, rate):
    assert "samples/s" not in "".join(lines_of(replace(JOB, samples_per_second=rate, samples_source=source)))
