"""Tests of the table of time categories. The largest is first. Unknown values have the reason of the hub, if any."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from zmon.cli.render.time_account import time_table
from zmon.schema.curve import Efficiency, Point
from zmon.schema.job import ExpectedStep, GpuActivity, JobView, Utilization

JOB = JobView(
    "job", 0, 4, 4, "train", 604, 0.02, 0.03, 1600.0, {}, {"forward": 5400.0, "all_to_all": 1800.0, "eval": 1.0},
    ("node-a",), {}, (), {"forward": 21600.0, "all_to_all": 7200.0, "eval": 4.0}, 0.875,
)  # fmt: skip


def lines_of(job):
    console = Console(file=StringIO(), width=80)
    console.print(time_table(job))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_largest_category_is_first_and_small_categories_share_a_row_that_names_them():
    title, head, first, second, small, goodput, _ = lines_of(JOB)
    assert title == "where 2 h went"
    assert head.split() == ["category", "time", "share", "GPU-hours"]
    assert first.split() == ["forward", "1", "h", "30", "min", "75.0%", "6"]
    assert second.split() == ["all_to_all", "30", "min", "25.0%", "2"]
    assert small.split()[:2] == ["eval", "1.0"]
    assert goodput == "goodput: 87.5% of the time was spent in steps whose work was kept"


def test_hours_of_a_large_job_are_written_out():
    job = replace(JOB, gpu_seconds={"forward": 3600 * 12345.0, "all_to_all": 3600 * 99.94})
    assert [line.split()[-1] for line in lines_of(job)[2:4]] == ["12,345", "99.9"]


def test_goodput_shows_the_time_that_was_lost_to_uneven_ranks():
    """The work of a step is kept although most ranks waited for one of them."""
    even = replace(JOB, time={"forward": 97.0, "imbalance": 3.0})
    uneven = replace(JOB, time={"forward": 40.0, "imbalance": 60.0})
    alone = "goodput: 87.5% of the time was spent in steps whose work was kept"
    assert lines_of(even)[-2] == alone
    assert " ".join(lines_of(uneven)[-3:-1]) == f"{alone}; 60.0% was waiting for the slowest rank (imbalance)"


@pytest.mark.parametrize(
    ("source", "origin"), [("loader", "the DataLoader"), ("model", "the input of the model"), ("new", "new")]
)
def test_inferred_rate_names_its_source(source, origin):
    assert f"samples/s: 512 (inferred from {origin})" in lines_of(
        replace(JOB, samples_per_second=512.0, samples_source=source)
    )


@pytest.mark.parametrize(("source", "rate"), [("declared", 512.0), ("", 512.0), ("loader", None)])
def test_reported_or_unknown_rate_has_no_source(source, rate):
    assert "samples/s" not in "".join(lines_of(replace(JOB, samples_per_second=rate, samples_source=source)))


def test_unknown_goodput_has_its_reason():
    job = replace(JOB, goodput_ratio=None, goodput_unknown="no checkpoint was seen before a restart")
    assert lines_of(job)[-2] == "goodput: unknown, no checkpoint was seen before a restart"
    assert lines_of(replace(JOB, goodput_ratio=None))[-2] == "goodput: unknown"


def test_efficiency_has_its_reference_and_the_recorded_value():
    point = Point(ranks=1, samples=512, seconds=0.02, by="zmon scaling", recorded=1.8e9)
    at_four = Efficiency(ratio=0.8, scaling="weak", name="ranker", reference=point, recorded=0.95)
    text = " ".join(lines_of(replace(JOB, efficiency=at_four))[-2:])
    assert text == (
        "efficiency: 80.0%, weak scaling from 1 rank × 512 samples (baseline ranker); recorded at this size: 95.0%"
    )
    new_size = replace(at_four, recorded=None)
    assert lines_of(replace(JOB, efficiency=new_size))[-1].endswith("recorded at this size: unknown")


def test_unknown_efficiency_has_its_reason():
    assert lines_of(replace(JOB, efficiency_unknown="it does not run"))[-1] == "efficiency: unknown, it does not run"
    assert lines_of(JOB)[-1] == "efficiency: unknown"


def test_job_that_has_not_trained_has_no_table():
    assert lines_of(replace(JOB, time={})) == ["where the time went is unknown so far"]


def test_gpu_hours_are_unknown_if_hub_sends_no_gpu_seconds():
    assert lines_of(replace(JOB, gpu_seconds={}))[2].split()[-1] == "unknown"


STEP = ExpectedStep(
    "predicted", "ranker", 0.041, {"own": 0.030, "all_to_all": 0.011}, 0.058, {"own": 0.031, "all_to_all": 0.027}
)


def test_step_longer_than_predicted_names_longer_category():
    text = " ".join(lines_of(replace(JOB, expected=STEP))[-2:])
    assert text == (
        "expected step time: 41 ms (predicted from other sizes of ranker), now 58 ms: all_to_all 16 ms longer"
    )


def test_step_as_long_as_recorded_names_no_category():
    expected = replace(STEP, by="recorded", now_seconds=0.0415, now_causes={"own": 0.0275, "all_to_all": 0.014})
    text = " ".join(lines_of(replace(JOB, expected=expected))[-2:])
    assert text.endswith("expected step time: 41 ms (recorded as ranker), now 41.5 ms")


def test_line_of_the_peak_has_all_known_ratios_and_what_limits_the_job():
    now = Utilization("counted", 2e12, 1e13, 0.2, 0.15)
    text = " ".join(lines_of(replace(JOB, utilization=now))[-2:])
    assert text == ("peak: 20.0% of the peak of its devices in steps (counted operations), 15.0% over wall-clock time")
    limited = replace(now, memory_ratio=0.5, roofline_ratio=0.5, memory_bound=True, uncounted="1.0% in mine::op")
    text = " ".join(lines_of(replace(JOB, utilization=limited))[-4:])
    assert text.endswith(
        "50.0% of the memory bandwidth, 50.0% of the roofline, which memory bandwidth limits; "
        "not counted: 1.0% in mine::op"
    )


def test_unknown_peak_has_its_reason():
    job = replace(JOB, utilization_unknown="the peak of Imaginary 1 is unknown")
    assert lines_of(job)[-1] == "peak: unknown, the peak of Imaginary 1 is unknown"


def test_line_of_the_gpus_has_what_they_measure():
    job = replace(JOB, gpu_activity=GpuActivity(0.431, 0.402, 0.21))
    assert " ".join(lines_of(job)[-2:]) == (
        "GPUs: tensor cores are busy 43.1% of the time in steps, 40.2% of wall-clock time, "
        "21.0% of the memory bandwidth is used"
    )
    job = replace(JOB, gpu_activity=GpuActivity(0.431, None))
    assert lines_of(job)[-1] == "GPUs: tensor cores are busy 43.1% of the time in steps"
