"""Tests of right and wrong acts. An act is wrong about an innocent rank, too early, or after a fault that heals."""

import pytest
from msgspec.structs import replace

from lab.drills.acts import is_act
from lab.drills.random_verdict import deviation, outcome, result_of
from tests.lab.drills.build import ACT, CANCEL, EXITED, ONSET, PAUSE, RESET, ROW, STOP


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"result": "unanswered"}, True),
        ({"result": "refused"}, False),
        ({"result": "observed", "mode": "observe"}, False),
        ({"act": "capture"}, False),
        ({"act": "end_job"}, True),
    ],
)
def test_act_is_what_an_agent_was_asked_to_do_and_did_not_refuse(changes, expected):
    assert is_act(replace(ACT, **changes)) is expected


@pytest.mark.parametrize(
    ("changes", "truth", "line"),
    [
        ({}, (STOP,), None),
        ({"time": ONSET - 0.1}, (STOP,), None),
        ({"time": ONSET - 5}, (STOP,), "kill_culprit of rank 2 for rank_frozen: nobody is to blame"),
        ({"ranks": (3,)}, (STOP,), "kill_culprit of rank 3 for rank_frozen: not to blame"),
        ({"ranks": (2, 3)}, (STOP,), "kill_culprit of rank 2, 3 for rank_frozen: not to blame"),
        ({"ranks": (2, 3)}, (STOP, replace(STOP, rank=3)), None),
        ({"ranks": ()}, (STOP,), "kill_culprit of rank none for rank_frozen: not to blame"),
        ({}, (RESET,), "kill_culprit of rank 2 for rank_frozen: not to blame"),
        ({"act": "end_job"}, (RESET,), None),
        ({"act": "end_job", "ranks": (3,)}, (STOP,), None),
        ({}, (PAUSE,), "kill_culprit of rank 2 for rank_frozen: nobody is to blame"),
        ({"act": "end_job"}, (CANCEL,), "end_job of rank 2 for rank_frozen: nobody is to blame"),
        ({}, (), "kill_culprit of rank 2 for rank_frozen: nobody is to blame"),
    ],
)
def test_act_is_wrong_unless_the_truth_blames_its_rank_or_job(changes, truth, line):
    row = replace(ROW, truth=truth, acts=(replace(ACT, **changes),))
    assert row.wrong_acts == (() if line is None else (line,))
    assert (row.result == "wrong act") is (line is not None)


def test_wrong_act_is_the_result_of_a_random_play_whatever_was_published():
    row = replace(ROW, truth=(PAUSE,), acts=(ACT,), quiet=True)
    assert result_of(row) == outcome(row).result == "wrong act"
    assert "wrong act: kill_culprit of rank 2" in deviation(row)


def test_rank_that_zmon_killed_is_no_wrong_cause():
    shown = replace(EXITED, cause="rank_frozen"), EXITED, replace(EXITED, id="2")
    row = replace(ROW, truth=(STOP,), shown=shown, moves=False, paged=("ZmonStall",))
    assert result_of(row) == "wrong cause"
    assert result_of(replace(row, acts=(ACT,))) == "right"


def test_row_with_acts_has_no_remark_about_pages():
    row = replace(ROW, paged=(), beside=("rank_exited",))
    assert row.remarks
    assert replace(row, truth=(STOP,), acts=(ACT,)).as_expected
