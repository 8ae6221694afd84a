"""Tests of the results of random compositions of real jobs."""

import pytest
from msgspec.structs import replace

from lab.drills.random_verdict import deviation, outcome, result_of
from lab.drills.score import TrueFault
from lab.stage import Shown
from tests.lab.drills.test_score import ROW

ONSET = 1000.0
KILL = TrueFault("drill-1", "kill", 2, "node-a", ONSET, ("rank_exited",))
STOP = TrueFault("drill-1", "stop", 3, "node-a", ONSET + 1, ("rank_frozen",))
LEAVE = TrueFault("drill-1", "leave", 2, "node-a", ONSET, ("compute_hang",))
RESET = TrueFault("drill-1", "reset", None, "node-a", ONSET, ("connection_lost",))
PAUSE = TrueFault("drill-1", "pause-in-data", 1, "node-a", ONSET, (), ("input_stall",))
SKIP = TrueFault("drill-1", "skip", 2, "node-a", ONSET, ("collective_mismatch",))
CANCEL = TrueFault("drill-1", "cancel-term", None, "node-a", ONSET)
EXITED = Shown("1", "stall", "rank_exited", "critical", (2,), ("node-a",), ONSET + 1, 0.95)
ROW = replace(ROW, drill="kill", proof="state", truth=(KILL,), shown=(EXITED,), moves=False, paged=("ZmonStall",))


def of(*truth, **changes):
    return result_of(replace(ROW, truth=truth, **changes))


def shown(*states):
    return tuple(replace(EXITED, **state) for state in states)


def test_culprit_and_cause_of_a_dead_job_with_a_page_are_right():
    assert result_of(ROW) == "right"
    assert outcome(ROW).confidence == 0.95


def test_late_finding_is_a_result_of_its_own():
    assert of(KILL, finding_seconds=9.0, target_seconds=4.0) == "late"


def test_innocent_that_a_later_state_of_the_finding_replaced_is_a_wrong_name():
    assert of(KILL, shown=shown({"ranks": (1,), "cause": "compute_hang", "severity": "warning"}, {})) == "wrong name"


def test_rank_in_a_finding_that_resolved_or_is_beside_the_right_one_is_a_wrong_name():
    other = {"id": "2", "detector": "straggler", "cause": "compute_straggler", "severity": "warning", "ranks": (0,)}
    assert of(KILL, shown=shown({}, other)) == "wrong name"


def test_rank_that_is_named_before_its_fault_is_a_wrong_name():
    assert of(KILL, shown=shown({"detected": ONSET - 5}, {})) == "wrong name"


def test_any_rank_is_a_wrong_name_if_the_fault_is_nobodys():
    assert of(RESET, shown=shown({"cause": "connection_lost"})) == "wrong name"
    assert of(RESET, shown=shown({"cause": "connection_lost", "ranks": ()})) == "right"


def test_rank_that_only_paused_must_not_be_named_for_the_end_of_another():
    assert of(PAUSE, KILL, shown=shown({"ranks": (1,)})) == "wrong name"
    warned = {"ranks": (1,), "cause": "input_stall", "severity": "warning"}
    assert of(PAUSE, KILL, shown=shown(warned, {})) == "right"


def test_either_of_two_faults_may_be_named():
    assert of(KILL, STOP, shown=shown({"cause": "rank_frozen", "ranks": (3,)})) == "right"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shown": (), "paged": ()}, "silent"),
        ({"shown": shown({"detector": "coverage", "ranks": ()})}, "silent"),
        ({"shown": shown({"severity": "info"})}, "silent"),
        ({"shown": shown({"severity": "warning"})}, "unpaged"),
        ({"paged": ()}, "unpaged"),
        ({"shown": (), "restarted": True}, "restarted"),
        ({"shown": (), "restarted": True, "moves": True}, "restarted"),
        ({"restarted": True, "moves": True}, "false page"),
        ({"shown": shown({"severity": "warning"}), "restarted": True, "moves": True}, "right"),
        ({"shown": (), "moves": True}, "missed"),
        ({"shown": shown({"cause": "launcher_gone", "ranks": ()})}, "wrong cause"),
        ({"shown": shown({"cause": "unknown", "ranks": ()})}, "unknown"),
        ({"shown": shown({"ranks": ()})}, "unknown"),
        ({"shown": shown({}, {"id": "2", "cause": "network_stall", "ranks": ()})}, "wrong cause"),
        ({"broken": "the job did not obey"}, "broken"),
    ],
)
def test_result_of_a_killed_rank(changes, expected):
    assert of(KILL, **changes) == expected


def test_fault_that_each_launch_has_is_a_crash_loop_only_under_a_launcher_that_restarts():
    states = shown({"severity": "warning"}, {"id": "2", "cause": "crash_loop"})
    assert of(KILL, shown=states, max_restarts=2) == "right"
    assert of(KILL, shown=states) == "wrong cause"


def test_job_with_restarts_that_hangs_in_silence_is_silent():
    assert of(LEAVE, shown=(), max_restarts=2) == "silent"


def test_collective_that_pairs_with_the_next_one_has_no_effect():
    assert of(SKIP, shown=(), moves=True) == "no effect"
    assert of(SKIP, shown=()) == "silent"


@pytest.mark.parametrize(
    ("truth", "states", "paged", "expected"),
    [
        (PAUSE, ({"ranks": (1,), "cause": "input_stall", "severity": "warning"},), (), "quiet"),
        (PAUSE, ({"ranks": (0,), "cause": "input_stall", "severity": "warning"},), (), "wrong name"),
        (PAUSE, ({"ranks": (1,), "cause": "input_stall"},), (), "false page"),
        (PAUSE, ({"ranks": (), "cause": "network_stall", "severity": "warning"},), (), "false warning"),
        (CANCEL, (), (), "quiet"),
        (CANCEL, ({"ranks": (), "cause": "compute_jitter", "severity": "warning"},), (), "quiet"),
        (CANCEL, ({"ranks": (), "severity": "warning"},), (), "false warning"),
        (CANCEL, (), ("ZmonLeaseOverdue",), "false page"),
    ],
)
def test_result_of_something_harmless(truth, states, paged, expected):
    assert of(truth, shown=shown(*states), quiet=True, paged=paged, moves=truth is PAUSE) == expected


def test_page_about_a_job_that_the_drill_ended_afterwards_is_false():
    assert of(PAUSE, shown=(), afterwards=(EXITED,), quiet=True, paged=(), moves=True) == "wrong name"
    nobody = shown({"ranks": (), "cause": "connection_lost"})
    assert of(PAUSE, shown=(), afterwards=nobody, quiet=True, paged=(), moves=True) == "false page"
    assert of(KILL, shown=(), afterwards=(EXITED,), paged=()) == "silent"


def test_job_that_died_of_something_else_than_a_harmless_event_is_silent():
    assert of(PAUSE, shown=(), quiet=True, paged=(), moves=False) == "silent"


def test_every_play_that_is_not_as_expected_is_listed_with_the_truth_or_the_reason():
    assert deviation(ROW) is None
    line = deviation(replace(ROW, shown=shown({"ranks": (1,)})))
    assert (
        line == "7:0 kill [ddp, 4 × 0.02 s, torchrun, 0 restarts] wrong name: reported rank_exited [1]; struck kill 2"
    )
    assert deviation(replace(ROW, broken="the job does not train")).endswith("broken: the job does not train")


def test_fault_is_the_first_one():
    assert outcome(replace(ROW, drill="kill+stop")).fault == "kill"
