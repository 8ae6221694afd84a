"""Tests of the headline of a job: one row for each situation, the most urgent first. `f9` is the finding of the end."""

from dataclasses import replace

import pytest

from tests.build import NOW, ended_job, finding
from tests.metrics.scene import JOB_VIEW
from zmon.job.headline import headline, with_headline
from zmon.schema.headline import Headline

END = ended_job(summary="rank 2 exited")
PROVEN = finding(summary="rank 2 froze")
SILENT = replace(PROVEN, id="f2", severity="warning", cause="input_stall", summary="rank 2 waits")
SLOW = finding(id="f3", detector="straggler", severity="warning", cause="compute_straggler", summary="rank 1 is slow")
INFO = replace(SILENT, id="f4", severity="info")
NAN = finding(id="f5", detector="divergence", cause="loss_nan", summary="loss is NaN", onset=NOW)

SITUATIONS = {  # state of the job, its active findings, its end → word, urgency, line, finding
    "a critical finding beats the end before": (
        ("train", [SLOW, NAN], END), ("DIVERGENCE", "critical", "loss is NaN", "f5"),
    ),
    "the earlier one of two critical findings": (
        ("train", [NAN, PROVEN], None), ("STALLED", "critical", "rank 2 froze", "f1"),
    ),
    "a stall that has ended the job": (("exited", [PROVEN], END), ("FAILED", "critical", "rank 2 froze", "f1")),
    "a stall that is not proven yet": (("stalled", [SLOW, SILENT], None), ("STALLED", "warning", "rank 2 waits", "f2")),
    "a stall without a finding": (
        ("stalled", [SLOW], None), ("STALLED", "critical", "nothing moves; the culprit is not known yet", None),
    ),
    "a fault ended the job": (
        ("exited", [SLOW], END), ("FAILED", "critical", "ended by rank_exited: rank 2 exited", "f9"),
    ),
    "a warning beats the end before": (("init", [SLOW], END), ("WARNING", "warning", "rank 1 is slow", "f3")),
    "a severity of a newer hub": (
        ("train", [SLOW, replace(SLOW, id="f6", severity="fatal")], None), ("FATAL", "warning", "rank 1 is slow", "f6"),
    ),
    "the next launch starts": (
        ("init", [], END),
        ("RESTARTED", "warning", "starting up; the launch before ended by rank_exited: rank 2 exited", "f9"),
    ),
    "quiet: training": (("train", [], None), ("HEALTHY", "ok", "training", None)),
    "quiet: evaluating": (("eval", [], None), ("HEALTHY", "ok", "evaluating", None)),
    "quiet: a pause that is ordinary": (("checkpoint", [INFO], None), ("HEALTHY", "ok", "writing a checkpoint", None)),
    "quiet: an activity of a newer rank": (("tune", [], None), ("HEALTHY", "ok", "tune", None)),
    "quiet: done": (("done", [], None), ("FINISHED", "info", "the job is done", None)),
    "quiet: its owner stopped it": (
        ("exited", [], None), ("ENDED", "info", "the job was stopped or has failed", None),
    ),
    "unknown is not healthy": (
        ("unknown", [INFO], None), ("UNKNOWN", "unknown", "the hub does not know the state of this job", None),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("situation", "expected"), SITUATIONS.values(), ids=SITUATIONS)
def test_headline_is_the_most_urgent_one(situation, expected):
    head = headline(*situation)
    assert (head.word, head.urgency, head.line, head.finding) == expected


def test_age_of_an_end_and_time_of_old_figures_follow_the_line():
    assert headline("exited", [], END).text(NOW) == "ended by rank_exited: rank 2 exited (1 h ago)"
    written = replace(PROVEN, as_of=NOW)
    assert headline("train", [written], None).text(NOW + 2) == "rank 2 froze"
    assert headline("train", [written], None).text(NOW + 5) == "rank 2 froze (as of 08:00:00 UTC)"


def test_findings_of_other_jobs_do_not_count():
    assert with_headline(JOB_VIEW, [replace(PROVEN, job_id="other")]).headline == Headline("HEALTHY", "ok", "training")
