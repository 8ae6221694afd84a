"""Tests of how a launch ended: the rows of docs/endings.md, helper processes, and restarts."""

from dataclasses import replace

import msgspec
import pytest

from scripts.endings_page import SECTIONS
from tests.build import JOB, NOW, finding, finished, job_steps, killed, raised, rank_state, snapshot, terminated
from tests.detectors.stalls import QUIET, STALL
from zmon.job.failures.classes import BY_NAME
from zmon.job.outcome import ended_launch, first_step, has_ended, launch_key, restarted
from zmon.job.restarts import is_over
from zmon.schema.ended_launch import CANCELLED, DONE, FAILED, NODE_LOST, PREEMPTED, UNKNOWN_END, Restart

ROWS = [row for rows in SECTIONS.values() for row in rows]
QUIET_ROWS = [row for row in ROWS if row.due == QUIET and is_over(row.job)]
FAULT_ROWS = [row for row in ROWS if row.due != QUIET and is_over(row.job)]
# The quiet rows that are no cancellation.
FINISHED = {
    "all ranks become another program by `exec`",
    "all ranks return",
    "SIGTERM, and the job's handler saves and exits 0",  # without the sender, it looks like the row before
    "the run finishes",
    "the function returns on all ranks; Ray ends its actors (exit code 1)",
    "the function returns on all ranks; the framework terminates them (signal SIGTERM)",
    "the function returns on all ranks; Kubernetes or the framework kills them (signal SIGKILL)",
    "the function returns on all ranks; they may leave (exit code 0)",
    "a finished rank's container is killed: a Kubernetes Job is deleted while other containers of its pods live",
    "the function raises on all ranks, and the program that started the pool goes on",
}
UNEXPLAINED = {
    "victims, and ranks of a silent agent",
    "the boxes of the other ranks were removed a quarter of an hour after the owner's end",
    "ranks of an older kernel end with their launcher, whose parent may still report their status",
    "ranks are killed with their launcher, whose status is not known yet",
    "all ranks end with exit code 1 without last words, and their launcher ends well",
    "all ranks end with exit code 1 without last words, and their launcher may still report its end",
    "all ranks end with their launcher in an uneven all_to_all; the status of the launcher is unknown",
}


@pytest.mark.parametrize("row", QUIET_ROWS, ids=str)
def test_end_without_a_fault_is_done_or_cancelled(row):
    expected = DONE if row.scene in FINISHED else UNKNOWN_END if row.scene in UNEXPLAINED else CANCELLED
    assert ended_launch(row.job, None, None).outcome == expected


@pytest.mark.parametrize("row", FAULT_ROWS, ids=str)
def test_end_by_a_fault_has_failed_unless_a_node_was_lost_or_it_is_unclear(row):
    fault = next(iter(STALL.detect(row.job)))
    end = ended_launch(row.job, fault, None)
    by_cause = {"host_lost": NODE_LOST, "unknown, warning": UNKNOWN_END}
    assert end.outcome == next((v for cause, v in by_cause.items() if row.due.startswith(cause)), FAILED)
    explanation = end.cause, end.ranks, end.culprit_hosts, end.summary
    assert explanation == (fault.cause, fault.ranks, fault.hosts, fault.summary)


@pytest.mark.parametrize("names", [FINISHED, UNEXPLAINED])
def test_each_named_row_exists(names):
    assert names <= {row.scene for row in QUIET_ROWS}


SENDER, CTRL_C = {"sender_pid": 4711}, {"kind": "exception", "type": "builtins.KeyboardInterrupt"}


@pytest.mark.parametrize(
    ("how", "words", "start"),
    [
        pytest.param(terminated, SENDER, "its owner ended all 4 ranks at step 100 (SIGTERM)", id="sender known"),
        pytest.param(terminated, {}, "all 4 ranks ended at step 100 (SIGTERM), as if by the owner", id="unknown"),
        pytest.param(terminated, CTRL_C, "its owner ended all 4 ranks", id="Ctrl-C"),
        pytest.param(finished, SENDER, "its owner ended all 4 ranks at step 100 (exit code 0)", id="saves and exits"),
    ],
)
def test_owner_is_named_only_if_something_shows_who_sent_the_signal(how, words, start):
    ranks = [how(rank, 9.0) for rank in range(4)]
    ranks = [replace(r, last_words=replace(r.last_words, **words)) for r in ranks]
    end = ended_launch(snapshot(*ranks), None, None)
    assert end.outcome == CANCELLED
    assert end.summary.startswith(start)


ALONE = {"world_size": 1, "steps": 0, "sequences": {}}


@pytest.mark.parametrize(
    ("ranks", "fault", "ended"),
    [
        pytest.param([finished(rank, 9.0) for rank in range(4)], None, True, id="all ranks have finished"),
        pytest.param([*(finished(rank, 9.0) for rank in range(3)), rank_state(3)], None, False, id="a rank lives"),
        pytest.param([finished(0, 9.0), finished(1, 1.0)], None, False, id="the last rank ended a moment ago"),
        pytest.param([finished(rank, 9.0) for rank in range(3)], None, False, id="a rank is not reported"),
        pytest.param([finished(0, 9.0, **ALONE)], None, False, id="a helper process without steps ends well"),
        pytest.param([raised(0, 9.0, **ALONE)], finding(), True, id="a lone process fails before its first step"),
        pytest.param([finished(0, 9.0, world_size=1)], None, True, id="a lone process has trained"),
    ],
)
def test_launch_has_ended_once_all_its_ranks_have(ranks, fault, ended):
    assert has_ended(snapshot(*ranks), fault) is ended


def test_launch_with_a_silent_agent_has_not_ended_unless_a_fault_explains_it():
    silent = snapshot(*(terminated(rank, 9.0) for rank in range(3)), unwatched=[rank_state(3)])
    assert not has_ended(silent, None)
    assert has_ended(silent, finding(cause="host_lost"))


def test_end_has_its_times_and_its_steps():
    ranks = [terminated(r, 9.0 + r, step=120, steps=20, step_seconds_total=10.0, open_seconds=9.0) for r in range(4)]
    end = ended_launch(snapshot(*ranks), None, None)
    assert (end.job_id, end.began, end.ended, end.recorded) == (JOB, NOW - 19.0, NOW - 9.0, NOW)
    assert (end.step, end.steps, end.first_step, end.seconds) == (120, 20, 100, 10.0)
    assert (end.time, end.goodput_ratio, end.is_late) == ({}, None, False)
    assert msgspec.structs.replace(end, recorded=end.ended + 70.0).is_late


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({"step": 100, "steps": 100}, 0),
        ({"step": 101, "steps": 100}, 1),  # torch jobs count from 1 by default
        ({"step": 620, "steps": 20}, 600),
        ({"step": 619, "steps": 20, "activity": "done"}, 600),  # outside training, it is the last step
        ({"step": 1, "steps": 0}, None),
    ],
)
def test_first_step_follows_from_the_current_step_and_the_number_of_finished_steps(changes, number):
    assert first_step(rank_state(0, **changes)) == number


def test_id_is_that_of_the_launch():
    ranks = [rank_state(rank, launch_id="abc", attempt=2) for rank in range(2)]
    assert launch_key(snapshot(*ranks)) == "abc-2"
    assert launch_key(snapshot(rank_state(0), rank_state(1))) == "uid-0-0"


FROZE = finding(onset=NOW - 90.0, detected=NOW - 80.0)
RESTART_SECONDS = {"detection": 60.0, "teardown": 0.0, "relaunch": 29.0, "init": 0.3, "first_step": 0.5}

RESTARTS = {  # the fault, seconds of the imports, and phases that differ from RESTART_SECONDS (None: unknown)
    "an older agent": (FROZE, None, {}),
    "the imports took a part": (FROZE, 8.0, {"relaunch": 21.0, "imports": 8.0}),
    "it started before the last rank ended": (FROZE, 31.0, {"relaunch": 0.0, "imports": 29.0}),
    "the hub saw it after the end": (replace(FROZE, onset=NOW - 30.0, detected=NOW), None, {"detection": None}),
    "no fault is known": (None, None, {"detection": None}),
}


@pytest.mark.parametrize(("fault", "import_seconds", "changes"), RESTARTS.values(), ids=RESTARTS)
def test_restart_is_noted_once_the_next_attempt_has_stepped_on_all_ranks(fault, import_seconds, changes):
    end = ended_launch(snapshot(*(killed(rank, 30.0) for rank in range(4))), fault, None)
    starting = [rank_state(rank, attempt=1, activity="init", step=1, steps=0) for rank in range(4)]
    end = restarted(end, snapshot(*starting))
    assert end.restart == Restart(1)
    times = {"step_seconds_total": 0.5, "step_seconds": 0.2, "open_seconds": 0.5, "import_seconds": import_seconds}
    stepped = {"attempt": 1, "step": 91, "steps": 1, **times}
    some = [rank_state(0, **stepped), *starting[1:]]
    assert restarted(end, snapshot(*some)) == end
    first = job_steps(1, first=90)
    end = restarted(end, snapshot(*(rank_state(rank, **stepped) for rank in range(4)), steps=first))
    assert (end.restart.attempt, end.restart.first_step, end.repeated_steps) == (1, 90, 10)
    phases = {phase: seconds for phase, seconds in (RESTART_SECONDS | changes).items() if seconds is not None}
    assert end.restart.phases == pytest.approx(phases)
    assert end.restart.seconds == pytest.approx(sum(phases.values()))
    later = {**stepped, "step": 100, "steps": 10}
    assert restarted(end, snapshot(*(rank_state(rank, **later) for rank in range(4)), steps=first)) == end


def test_restart_of_a_later_attempt_is_not_noted():
    end = ended_launch(snapshot(*(killed(rank, 30.0) for rank in range(4))), finding(), None)
    end = restarted(end, snapshot(*(rank_state(rank, attempt=1, steps=0) for rank in range(4))))
    assert restarted(end, snapshot(*(rank_state(rank, attempt=2, steps=0) for rank in range(4)))) == end
    assert restarted(end, snapshot(*(rank_state(rank) for rank in range(4)))) == end


STEPS = ("step 41 loss 2.31", "step 42 loss 2.29")
SLURM = "slurmstepd: error: *** JOB 77 ON node-1 CANCELLED AT 2026-05-01T12:00:00 DUE TO {} ***"


@pytest.mark.parametrize(
    ("how", "output", "outcome", "failure"),
    [
        pytest.param(terminated, SLURM.format("TIME LIMIT"), CANCELLED, "time_limit", id="a time limit"),
        pytest.param(terminated, SLURM.format("PREEMPTION"), PREEMPTED, "preemption", id="preemption"),
        pytest.param(terminated, SLURM.format("NODE FAILURE"), NODE_LOST, "node_failure", id="a node fails"),
        pytest.param(terminated, "saving", CANCELLED, "", id="its owner ends it"),
        pytest.param(finished, "CUDA out of memory", DONE, "", id="nothing failed, whatever was printed"),
    ],
)
def test_output_shows_why_a_scheduler_ended_a_launch_without_a_fault(how, output, outcome, failure):
    ranks = [how(rank, 9.0) for rank in range(4)]
    end = ended_launch(snapshot(*ranks), None, None, (*STEPS, output))
    assert (end.outcome, end.failure) == (outcome, failure)


def test_failure_has_its_class_and_the_next_step_of_the_class():
    ranks = [raised(2, 9.5, message="x"), *(terminated(rank, 9.0) for rank in (0, 1, 3))]
    fault = finding(cause="rank_exited", detail="Read the log.")
    words = replace(ranks[0].last_words, type="builtins.FileNotFoundError", message="[Errno 2] No such file: '/d'")
    end = ended_launch(snapshot(replace(ranks[0], last_words=words), *ranks[1:]), fault, None)
    assert (end.outcome, end.failure) == (FAILED, "missing_file")
    assert "No such file" in end.clue
    assert end.next_step == BY_NAME["missing_file"].next_step
    assert end.reason.startswith("missing file: ")


def test_memory_of_the_host_is_that_of_the_kernels_log():
    fault = finding(cause="rank_exited", evidence={"out_of_memory": "out of memory: killed process 1002 (python)"})
    end = ended_launch(snapshot(*(killed(rank, 9.0) for rank in range(4))), fault, None)
    assert end.failure == "host_memory"


def test_finding_about_several_ranks_keeps_its_next_step():
    fault = finding(cause="collective_mismatch", detail="Compare the sizes.")
    end = ended_launch(snapshot(*(raised(rank, 9.0) for rank in range(4))), fault, None)
    assert (end.next_step, end.failure) == ("Compare the sizes.", "code_error")
