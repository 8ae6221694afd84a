"""Tests of the judgement about a run: a column is wrong exactly if zmon and the job differ in it."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.boxes import IDENTITY, Totals
from tests.frameworks.judging import JUDGES, judge, judge_freeze
from tests.frameworks.running import Run, WatchedRank
from tests.frameworks.table import ROWS
from tests.steps import Measures, OpTotals
from zmon.job.flight import Entry, FlightDump

pytestmark = pytest.mark.unit

ROW = next(row for row in ROWS if row.name == "huggingface-example")
DECLARED = {"samples": 40, "flops": 4000, "report": ["loss"]}


def flight_entries(number):
    """Return the entries of this many all-reduces of 32 bytes."""
    return [Entry(["0", ""], "gloo:all_reduce", seq, "", True, 0, input_sizes=[[8]], input_dtypes=["Float"])
            for seq in range(number)]  # fmt: skip


def watched_rank(rank, *, job_id="job", steps=10, ops=None, phases=ROW.phases, stays=None, activity="done", samples=40):
    """Return a rank as zmon saw it: by default it agrees with what the job counted."""
    measures = Measures(
        dict.fromkeys(phases, 1.0), ops or {"all_reduce": OpTotals(3, sent_bytes=96)}, samples=samples, flops=4000
    )
    totals = Totals(
        steps=steps, step_seconds=1.0, last_step_time=None, last_checkpoint_time=None, memory=None,
        overhead_seconds=0.0, dropped_records=0, measures=measures, between_seconds={}, time=0.0,
    )  # fmt: skip
    identity = replace(IDENTITY, rank=rank, pid=100 + rank, job_id=job_id)
    return WatchedRank(
        identity, totals, Counter({"eval": 1, "checkpoint": 1, **(stays or {})}), activity, {"loss": 1.0}
    )


def run(*, findings=(), exit_code=0, counted=None, stopped=False, **changes):
    """Return a run of two ranks. `changes` are those of rank 1; `counted` changes the counts of both."""
    counts = {
        rank: {"pid": 100 + rank, "steps": 10, "evaluations": 1, "checkpoints": None if rank else 1, "single": {},
               "declared": DECLARED, **(counted or {})}
        for rank in range(2)
    }  # fmt: skip
    card = {"ending": f"exit code {exit_code}", "jobs": [{"findings": list(findings)}]}
    flights = {rank: FlightDump(entries=flight_entries(3)) for rank in range(2)}
    return Run(exit_code, "", card, [watched_rank(0), watched_rank(1, **changes)], counts, flights, stopped)


def finding(cause, *ranks, detector="stall", severity="critical"):
    """Return a finding as it is on the card."""
    return {"detector": detector, "cause": cause, "severity": severity, "ranks": list(ranks)}


def wrong(judged_run):
    """Return the errors of a run by column, without the right columns."""
    return {column: text for column, text in judge(ROW, judged_run).items() if text}


def test_run_in_which_zmon_and_the_job_agree_is_right():
    assert wrong(run()) == {}
    assert judge(ROW, run()).keys() == JUDGES.keys()


@pytest.mark.parametrize(
    ("changes", "column", "text"),
    [
        ({"steps": 9}, "steps", "rank 1: zmon measured 9, the job counted 10"),
        (
            {"phases": ("forward",)},
            "phases",
            "rank 1: missing phases ['backward', 'data', 'optimizer'], unexpected phases []",
        ),
        (
            {"ops": {"all_reduce": OpTotals(2, sent_bytes=96)}},
            "collectives",
            "all_reduce: measured 2 (96 bytes), recorded 3",
        ),
        ({"ops": {"all_reduce": OpTotals(3, sent_bytes=64)}}, "collectives", "measured 3 (64 bytes), recorded 3 (96"),
        (
            {"ops": {"all_reduce": OpTotals(3, sent_bytes=96), "send": OpTotals(1)}},
            "collectives",
            "send: measured 1, recorded 0",
        ),
        ({"stays": {"eval": 0}}, "evaluation", "rank 1: zmon measured 0, the job counted 1"),
        ({"activity": "train"}, "clean end", "{1: 'train'}"),
        ({"exit_code": 1}, "clean end", "exit code 1"),
        ({"findings": [finding("compute_hang", 0, severity="warning")]}, "clean end", "compute_hang of ranks [0]"),
        ({"samples": None}, "declared", "rank 1: zmon has {'samples': None"),
        ({"counted": {"pid": 7}}, "ranks", "(0, 2, 7)"),
        ({"job_id": "other"}, "ranks", "the ranks are in 2 jobs: job, other"),
    ],
)
def test_difference_is_wrong_in_its_column(changes, column, text):
    differences = wrong(run(**changes))
    assert differences.keys() == {column}
    assert text in differences[column]


def test_checkpoint_of_a_rank_that_does_not_know_what_it_saves_is_not_judged():
    assert wrong(run(stays={"checkpoint": 0})) == {}
    assert wrong(run(stays={"checkpoint": 0}, counted={"checkpoints": 1})) == {
        "checkpoint": "rank 1: zmon measured 0, the job counted 1"
    }


def test_column_that_the_job_lacks_is_not_judged():
    assert "declared" not in judge(replace(ROW, lacks={"declared": "none"}), run(samples=None))


def test_warning_about_slowness_is_no_unclean_end():
    assert wrong(run(findings=[finding("straggler", 1, detector="straggler", severity="warning")])) == {}


@pytest.mark.parametrize(
    ("findings", "text"),
    [
        ([finding("rank_frozen", 1)], ""),
        ([], "the finding is none"),
        ([finding("rank_frozen", 0)], "the finding is rank_frozen of ranks [0]"),
        ([finding("compute_hang", 1)], "the finding is compute_hang of ranks [1]"),
        ([finding("rank_frozen", 1), finding("link_fault", 0)], "also link_fault of ranks [0]"),
    ],
)
def test_freeze_is_right_if_the_rank_is_named_and_nothing_else_is(findings, text):
    assert judge_freeze(run(findings=findings, stopped=True)) == text


def test_freeze_is_wrong_if_the_job_does_not_end_well_or_was_never_stopped():
    assert "exit code 1" in judge_freeze(run(findings=[finding("rank_frozen", 1)], stopped=True, exit_code=1))
    assert judge_freeze(run()) == "no rank was stopped"
