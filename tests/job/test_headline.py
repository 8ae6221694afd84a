"""Tests of the headline of a job: one row for each situation, the most urgent first.

`f9` is the finding that explains the end of the job.
"""

from dataclasses import replace

import pytest

from tests.build import NOW, ended_job, finding
from tests.metrics.scene import JOB_VIEW
from zmon.job.headline import headline, with_headline
from zmon.schema.job import UNKNOWN_STATE, Headline

END = ended_job(summary="rank 2 exited")
PROVEN = finding(summary="rank 2 froze")
SILENT = replace(PROVEN, id="f2", severity="warning", cause="input_stall", summary="rank 2 waits")
SLOW = finding(id="f3", detector="straggler", severity="warning", cause="compute_straggler", summary="rank 1 is slow")
INFO = replace(SILENT, id="f4", severity="info")
FATAL = replace(SLOW, id="f6", severity="fatal")
NAN = finding(id="f5", detector="divergence", cause="loss_nan", summary="loss is NaN", onset=NOW)
NOTHING_MOVES = "nothing moves; the culprit is not known yet"
ENDED = "ended by rank_exited: rank 2 exited"

SITUATIONS = {  # state of the job, its active findings, its end, and the headline: word, urgency, finding, line
    "a critical finding beats a warning": ("train", [SLOW, NAN], None, "DIVERGENCE critical f5: loss is NaN"),
    "a critical finding beats the end before": ("init", [NAN], END, "DIVERGENCE critical f5: loss is NaN"),
    "the critical finding that began first": ("train", [NAN, PROVEN], None, "STALLED critical f1: rank 2 froze"),
    "a stall that ended the job": ("exited", [PROVEN], END, "FAILED critical f1: rank 2 froze"),
    "a stall that is not proven yet": ("stalled", [SLOW, SILENT], None, "STALLED warning f2: rank 2 waits"),
    "a stall without a finding": ("stalled", [SLOW], None, f"STALLED critical None: {NOTHING_MOVES}"),
    "a fault ended the job": ("exited", [SLOW], END, f"FAILED critical f9: {ENDED}"),
    "a warning beats the end before": ("init", [SLOW], END, "WARNING warning f3: rank 1 is slow"),
    "a severity of a newer hub": ("train", [SLOW, FATAL], None, "FATAL warning f6: rank 1 is slow"),
    "the next launch starts": ("init", [], END, f"RESTARTED warning f9: starting up; the launch before {ENDED}"),
    "unknown is not healthy": ("unknown", [INFO], None, f"UNKNOWN unknown None: {UNKNOWN_STATE.line}"),
    "quiet: training": ("train", [], None, "HEALTHY ok None: training"),
    "quiet: evaluating": ("eval", [], None, "HEALTHY ok None: evaluating"),
    "quiet: a pause that is ordinary": ("checkpoint", [INFO], None, "HEALTHY ok None: writing a checkpoint"),
    "quiet: an activity of a newer rank": ("tune", [], None, "HEALTHY ok None: tune"),
    "quiet: done": ("done", [], None, "FINISHED info None: the job is done"),
    "quiet: its owner stopped it": ("exited", [], None, "ENDED info None: the job was stopped or has failed"),
}


@pytest.mark.parametrize(("state", "findings", "end", "expected"), SITUATIONS.values(), ids=SITUATIONS)
def test_headline_is_the_most_urgent_one(state, findings, end, expected):
    head = headline(state, findings, end)
    assert f"{head.word} {head.urgency} {head.finding}: {head.line}" == expected


def test_age_of_an_end_follows_the_line():
    assert headline("exited", [], END).text(NOW) == f"{ENDED} (1 h ago)"


def test_time_of_old_figures_follows_the_line():
    written = replace(PROVEN, as_of=NOW)
    assert headline("train", [written], None).text(NOW + 2) == "rank 2 froze"
    assert headline("train", [written], None).text(NOW + 5) == "rank 2 froze (as of 08:00:00 UTC)"


def test_findings_of_other_jobs_do_not_count():
    assert with_headline(JOB_VIEW, [replace(PROVEN, job_id="other")]).headline == Headline("HEALTHY", "ok", "training")


def test_healthy_job_whose_ranks_are_not_compared_says_so():
    apart = replace(JOB_VIEW, uncompared="no collectives: ranks are not compared")
    assert with_headline(apart, []).headline.line == "training; no collectives: ranks are not compared"
    slow = replace(SLOW, job_id=apart.job_id)
    assert with_headline(apart, [slow]).headline.line == "rank 1 is slow"
