"""Tests of what findings about crash loops say. The rows of loop_rows.py show which jobs are in a crash loop."""

import pytest

from tests.detectors.endings.loop_rows import LOOPS, end, failing, loop, running
from tests.detectors.stalls import STALL

BY_NAME = {row_.scene: row_ for row_ in LOOPS}


def finding_of(row_):
    """Return the first finding about the job of a row."""
    return STALL.detect(row_.job)[0]


def test_finding_has_the_starts_and_what_they_share():
    finding = finding_of(BY_NAME["the third start fails without progress"])
    assert (finding.hosts, finding.step, finding.evidence.num_starts) == (("node-a",), 118, 3)
    assert finding.summary == (
        "3 starts in 2 min 29 s failed without progress: each ended at step 118 by rank 2 on node-a: ValueError: bad "
        "sample; the launcher has 18 restarts left, which will most likely fail as well"
    )


@pytest.mark.parametrize(
    ("name", "hosts", "text", "advice"),
    [
        ("ranks of one host fail in turn", ("node-a",),
         "each ended at step 118, by other ranks each time, all on node-a", "take it out"),
        ("ranks of several hosts fail in turn", (),
         "each ended at step 118, by another rank each time", "belongs to step 118"),
        ("one rank fails on other hosts and at other steps", ("node-a",),
         "they ended at steps 90 to 120 by rank 2, on another host each time", "look at its data"),
        ("each start fails before its first step", ("node-a",),
         "each ended before its first step by rank 2 on node-a", "configuration"),
        ("each start fails with another error", ("node-a",),
         "the errors differ, the last was ValueError: bad sample", "belongs to step 118"),
    ],
)  # fmt: skip
def test_texts_follow_from_what_the_starts_share(name, hosts, text, advice):
    finding = finding_of(BY_NAME[name])
    assert finding.hosts == hosts
    assert text in finding.summary
    assert advice in finding.detail


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("the start of a supervisor fails",
         "no launcher will restart the job, but something started it again 10 s after its last end"),
        ("the last restart of a launcher fails", "nothing will restart the job"),
        ("the start of a person fails", "nothing will restart the job"),
    ],
)  # fmt: skip
def test_summary_of_a_single_failure_says_what_will_restart_the_job(name, text):
    finding = finding_of(BY_NAME[name])
    assert finding.hosts == ("node-a",)
    assert text in finding.summary


def test_restarts_of_a_supervisor_are_not_counted():
    finding = finding_of(BY_NAME["a supervisor starts the launcher again, and each start fails"])
    assert "restarts left" not in finding.summary


def test_id_stays_the_same_for_all_launches_of_the_loop():
    ends = [end(number) for number in range(5)]
    launches = [(ends[:2], failing()), (ends[:3], failing()), (ends, failing(rank=1)), (ends[:4], running(5))]
    assert len({finding_of(loop("", "", *launch)).id for launch in launches}) == 1
