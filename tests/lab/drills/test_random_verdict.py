"""Tests of the results of random compositions of real jobs."""

import pytest
from msgspec.structs import replace

from lab.drills.random_verdict import deviation, outcome, result_of
from lab.drills.truth import TrueFault
from tests.lab.drills.build import CANCEL, EXITED, KILL, ONSET, PAUSE, RESET, ROW, STOP

LEAVE = TrueFault("drill-1", "leave", 2, "node-a", ONSET, ("compute_hang",))
SKIP = TrueFault("drill-1", "skip", 2, "node-a", ONSET, ("collective_mismatch",))
STOP_3 = replace(STOP, rank=3, time=ONSET + 1)
PAUSE_OF_1 = replace(PAUSE, rank=1)
KILLED = replace(ROW, drill="kill", proof="state", truth=(KILL,), shown=(EXITED,), moves=False, paged=("ZmonStall",))


def result_after(*truth, **changes):
    """Return the result of a play with these true faults."""
    return result_of(replace(KILLED, truth=truth, **changes))


def shown(*changes):
    """Return published states of findings: `EXITED` with each of these changes."""
    return tuple(replace(EXITED, **fields) for fields in changes)


def test_culprit_and_cause_of_a_dead_job_with_a_page_are_right():
    assert result_of(KILLED) == "right"
    assert outcome(KILLED).confidence == 0.95
    assert outcome(replace(KILLED, drill="kill+stop")).fault == "kill"


STRAGGLER = {"id": "2", "detector": "straggler", "cause": "compute_straggler", "severity": "warning", "ranks": (0,)}
CRASH_LOOP = shown({"severity": "warning"}, {"id": "2", "cause": "crash_loop"})


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
        ({"finding_seconds": 9.0, "target_seconds": 4.0}, "late"),
        # A wrong name counts although a right one replaces it, stands beside it or comes after the fault.
        ({"shown": shown({"ranks": (1,), "cause": "compute_hang", "severity": "warning"}, {})}, "wrong name"),
        ({"shown": shown({}, STRAGGLER)}, "wrong name"),
        ({"shown": shown({"detected": ONSET - 5}, {})}, "wrong name"),
        ({"shown": CRASH_LOOP, "max_restarts": 2}, "right"),
        ({"shown": CRASH_LOOP}, "wrong cause"),  # the launcher does not restart ranks
        ({"shown": (), "afterwards": (EXITED,), "paged": ()}, "silent"),
    ],
)
def test_result_of_a_killed_rank(changes, expected):
    assert result_after(KILL, **changes) == expected


WARNED = {"ranks": (1,), "cause": "input_stall", "severity": "warning"}
OTHER_FAULTS = {
    "a rank for a fault of nobody": ((RESET,), {"shown": shown({"cause": "connection_lost"})}, "wrong name"),
    "the connection alone": ((RESET,), {"shown": shown({"cause": "connection_lost", "ranks": ()})}, "right"),
    "a rank that only paused": ((PAUSE_OF_1, KILL), {"shown": shown({"ranks": (1,)})}, "wrong name"),
    "the killed rank": ((PAUSE_OF_1, KILL), {"shown": shown(WARNED, {})}, "right"),
    "either of two may be named": ((KILL, STOP_3), {"shown": shown({"cause": "rank_frozen", "ranks": (3,)})}, "right"),
    "a rank that left without a finding": ((LEAVE,), {"shown": (), "max_restarts": 2}, "silent"),
    "the skipped collective pairs with the next one": ((SKIP,), {"shown": (), "moves": True}, "no effect"),
    "a rank that skips without a finding": ((SKIP,), {"shown": ()}, "silent"),
}


@pytest.mark.parametrize(("truths", "changes", "expected"), OTHER_FAULTS.values(), ids=OTHER_FAULTS)
def test_result_of_other_faults(truths, changes, expected):
    assert result_after(*truths, **changes) == expected


@pytest.mark.parametrize(
    ("truth", "states", "paged", "expected"),
    [
        (PAUSE_OF_1, (WARNED,), (), "quiet"),
        (PAUSE_OF_1, ({**WARNED, "ranks": (0,)},), (), "wrong name"),
        (PAUSE_OF_1, ({"ranks": (1,), "cause": "input_stall"},), (), "false page"),
        (PAUSE_OF_1, ({"ranks": (), "cause": "network_stall", "severity": "warning"},), (), "false warning"),
        (CANCEL, (), (), "quiet"),
        (CANCEL, ({"ranks": (), "cause": "compute_jitter", "severity": "warning"},), (), "quiet"),
        (CANCEL, ({"ranks": (), "severity": "warning"},), (), "false warning"),
        (CANCEL, (), ("ZmonLeaseOverdue",), "false page"),
    ],
)
def test_result_of_something_harmless(truth, states, paged, expected):
    assert result_after(truth, shown=shown(*states), quiet=True, paged=paged, moves=truth is PAUSE_OF_1) == expected


AFTER_A_PAUSE = {
    "a finding about a job that the drill ended": ({"afterwards": (EXITED,), "moves": True}, "wrong name"),
    "a page about nobody": (
        {"afterwards": shown({"ranks": (), "cause": "connection_lost"}), "moves": True}, "false page"),
    "it died of something else": ({"moves": False}, "silent"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), AFTER_A_PAUSE.values(), ids=AFTER_A_PAUSE)
def test_result_of_a_pause_after_which_the_job_ends(changes, expected):
    assert result_after(PAUSE_OF_1, shown=(), quiet=True, paged=(), **changes) == expected


def test_every_play_that_is_not_as_expected_is_listed_with_the_truth_or_the_reason():
    assert deviation(KILLED) is None
    setting = "7:0 kill [ddp, 4 × 0.02 s, torchrun, 0 restarts]"
    line = deviation(replace(KILLED, shown=shown({"ranks": (1,)})))
    assert line == f"{setting} wrong name: reported rank_exited [1]; struck kill 2"
    assert deviation(replace(KILLED, broken="the job does not train")).endswith("broken: the job does not train")
