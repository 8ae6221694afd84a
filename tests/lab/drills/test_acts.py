"""Tests of right and wrong acts. An act is wrong about an innocent rank, too early, or after a fault that heals."""

import pytest
from msgspec.structs import replace

from lab.drills.acts import is_act
from lab.drills.random_verdict import deviation, outcome, result_of
from lab.drills.truth import TrueFault
from tests.lab.drills.test_random_verdict import EXITED
from tests.lab.drills.test_score import ROW
from zmon.schema.act import ACTED, ENFORCE, KILL_CULPRIT, Intent

ONSET = 1000.0
ACT = Intent(
    id="1", rule="frozen", act=KILL_CULPRIT, mode=ENFORCE, time=ONSET + 1, finding="f", job_id="drill-1",
    launch_id="l", attempt=0, cause="rank_frozen", proof="process_state", severity="critical",
    confidence=0.97, ranks=(2,), hosts=("node-a",), run_uids=("u",), step=7, onset=ONSET, labels={}, result=ACTED,
)  # fmt: skip
STOP = TrueFault("drill-1", "stop", 2, "node-a", ONSET, ("rank_frozen",))
PAUSE = TrueFault("drill-1", "pause-in-data", 2, "node-a", ONSET, (), ("input_stall",))
CANCEL = TrueFault("drill-1", "cancel-term", None, "node-a", ONSET)
RESET = TrueFault("drill-1", "reset", None, "node-a", ONSET, ("connection_lost",))


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
