"""Where time went is read from the top, and what is unknown says so."""

from dataclasses import replace
from io import StringIO

from rich.console import Console

from zmon.cli.render.time_account import time_table
from zmon.schema.curve import Efficiency, Point
from zmon.schema.expected import Expected
from zmon.schema.job import JobView

JOB = JobView(
    "job", 0, 4, 4, "train", 604, 0.02, 0.03, 1600.0, {}, {"forward": 5400.0, "all_to_all": 1800.0, "eval": 1.0},
    ("node-a",), {}, (), {"forward": 21600.0, "all_to_all": 7200.0, "eval": 4.0}, 0.875,
)  # fmt: skip


def said(job):
    console = Console(file=StringIO(), width=80)
    console.print(time_table(job))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_largest_cause_is_first_and_small_ones_are_one_row():
    title, head, first, second, small, goodput, _ = said(JOB)
    assert title == "where 2 h went"
    assert head.split() == ["cause", "time", "share", "GPU-hours"]
    assert first.split() == ["forward", "1", "h", "30", "min", "75.0%", "6"]
    assert second.split() == ["all_to_all", "30", "min", "25.0%", "2"]
    assert small.split()[:2] == ["1", "more"]
    assert goodput == "goodput: 87.5% of it were steps that were kept"


def test_unknown_goodput_says_why():
    job = replace(JOB, goodput_ratio=None, goodput_unknown="no checkpoint was seen before a restart")
    assert said(job)[-2] == "goodput: unknown, no checkpoint was seen before a restart"
    assert said(replace(JOB, goodput_ratio=None))[-2] == "goodput: unknown"


def test_efficiency_says_from_what_the_job_scales_and_what_was_recorded():
    one = Point(ranks=1, samples=512, seconds=0.02, by="zmon scaling", recorded=1.8e9)
    at_four = Efficiency(ratio=0.8, scaling="weak", name="ranker", reference=one, recorded=0.95)
    told = " ".join(said(replace(JOB, efficiency=at_four))[-2:])
    assert told == (
        "efficiency: 80.0%, weak scaling from 1 rank × 512 samples, recorded of ranker; 95.0% was recorded at this size"
    )
    new_size = replace(at_four, recorded=None)
    assert said(replace(JOB, efficiency=new_size))[-1].endswith("nobody recorded this size")


def test_unknown_efficiency_says_why():
    assert said(replace(JOB, efficiency_unknown="it does not run"))[-1] == "efficiency: unknown, it does not run"
    assert said(JOB)[-1] == "efficiency: unknown"


def test_job_that_has_not_trained_has_no_table():
    assert said(replace(JOB, time={})) == ["where its time went is not known yet"]


def test_hub_of_another_version_tells_no_gpu_seconds():
    assert said(replace(JOB, gpu_seconds={}))[2].split()[-1] == "unknown"


NOW = {"own": 0.031, "all_to_all": 0.027}
STEP = Expected("predicted", "ranker", 0.041, {"own": 0.030, "all_to_all": 0.011}, 0.058, NOW)


def test_step_that_is_longer_than_predicted_says_where():
    told = " ".join(said(replace(JOB, expected=STEP))[-2:])
    assert told == (
        "a step should take 41 ms (predicted from other sizes of ranker) and takes 58 ms: all_to_all 16 ms longer"
    )


def test_step_that_is_as_it_was_recorded_blames_nothing():
    well = replace(STEP, by="recorded", now_seconds=0.0415, now_causes={"own": 0.0275, "all_to_all": 0.014})
    told = " ".join(said(replace(JOB, expected=well))[-2:])
    assert told.endswith("a step should take 41 ms (recorded of ranker) and takes 41.5 ms")
