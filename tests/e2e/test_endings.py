"""Tests of real jobs that end. The fault is named and paged, innocent ranks are not, and an owner's end is quiet.

`tests/detectors/endings/` has all the ways in which a job can end; these are ends that only a real job shows fully.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.endings import (
    LOOP_SECONDS,
    MPIRUN,
    RANKS,
    SPAWN,
    SUPERVISOR,
    TORCHRUN,
    await_finding,
    forked_ranks,
)
from tests.e2e.running_stack import Job, RunningStack, is_up, process_with, wait_for

QUIET_SECONDS = 4.0  # another finding would have come within this time
PAGE_SECONDS = 10.0  # the target is 5 s after the finding, but these tests share the machine with others
REFUSED = "RuntimeError: storage client: cannot read shard 17: connection refused"


@dataclass(frozen=True)
class Ending:
    """A fault that ends a job, and what zmon must say of it."""

    fault: str
    cause: str
    ranks: tuple[int, ...]
    summary: str  # part of it
    detail: str = ""  # part of it
    launcher: tuple[str, ...] = TORCHRUN


ENDINGS = {
    "storage": Ending("storage", "rank_exited", (1,), REFUSED),
    "storage_under_spawn": Ending("storage", "rank_exited", (1,), REFUSED, launcher=SPAWN),
    "connection_shut": Ending("reset", "connection_lost", (), "no rank had failed before", "conntrack"),
    "rendezvous": Ending("unreachable", "rendezvous_failed", (1,), "the ranks never met", "MASTER_ADDR"),
    "rendezvous_of_late_rank": Ending(
        "late and unreachable", "rendezvous_failed", (1,), "the ranks never met", "MASTER_ADDR"
    ),
    "uneven_inputs": Ending("uneven", "uneven_end", (1,), "while", "drop_last"),
    "wrapped_errors": Ending("wrapped", "rank_exited", (1,), "exit code 3"),
    "full_disk": Ending("full disk", "rank_exited", (1,), "inline_container.cc", "df -h"),
    "killed": Ending("killed", "rank_exited", (1,), "SIGKILL"),
    "storage_under_mpirun": Ending("storage", "rank_exited", (1,), REFUSED, launcher=MPIRUN),
    "killed_under_mpirun": Ending("killed", "rank_exited", (1,), "SIGKILL", launcher=MPIRUN),
    "terminated_under_torchrun": Ending("terminated", "rank_exited", (1,), "SIGTERM"),  # the launcher ends the others
    "terminated_under_mpirun": Ending("terminated", "rank_exited", (1,), "SIGTERM", launcher=MPIRUN),
    "terminated_under_spawn": Ending("terminated", "rank_exited", (1,), "SIGTERM", launcher=SPAWN),
    "connection_shut_under_mpirun": Ending(
        "reset", "connection_lost", (), "no rank had failed before", "conntrack", launcher=MPIRUN
    ),
    "no_restart_left": Ending(
        "storage", "rank_exited", (1,), "has used its only restart", launcher=(*TORCHRUN, "--max-restarts=1")
    ),
}
OWNERS_ENDS: dict[str, Callable[[Job], None]] = {
    "terminated": lambda job: job.process.send_signal(signal.SIGTERM),
    "interrupted": lambda job: os.killpg(job.process.pid, signal.SIGINT),
    "interrupted_launcher": lambda job: job.process.send_signal(signal.SIGINT),
}


def assert_only_finding(stack: RunningStack, job_id: str, cause: str, ranks: tuple[int, ...]) -> None:
    """Check that nothing else was ever reported about a job, and that the finding was paged."""
    time.sleep(QUIET_SECONDS)
    findings = stack.findings(job_id, active=False)
    assert {(f["cause"], tuple(f["ranks"])) for f in findings} == {(cause, ranks)}
    alerts = wait_for("a page", lambda: stack.alerts(job_id, "firing"), PAGE_SECONDS)
    assert ("ZmonStall", "critical") in {(a["labels"]["alertname"], a["labels"]["severity"]) for a in alerts}


def test_storage_error_of_a_rank_without_launcher_names_that_rank(stack, jobs, torch_zygote):
    with forked_ranks(torch_zygote, jobs.environment("no-launcher", "storage"), jobs.directory / "log"):
        finding = await_finding(stack, "no-launcher", cause="rank_exited", severity="critical")
    assert finding["ranks"] == [1]
    assert REFUSED in finding["summary"]
    assert finding["summary"].endswith("nothing will restart the job")


@pytest.mark.slow  # a job without a launcher is in every run
@pytest.mark.parametrize("name", ENDINGS)
def test_fault_that_ends_a_job_is_named_with_its_reason(stack, jobs, name):
    ending = ENDINGS[name]
    job = jobs.start(ending.fault, ending.launcher)
    finding = await_finding(stack, job.job_id, cause=ending.cause, severity="critical")
    assert tuple(finding["ranks"]) == ending.ranks
    assert ending.summary in finding["summary"]
    assert ending.detail in finding["detail"]
    assert finding["evidence"].get("pair") in (None, [], [1, 2])  # the pair, if it is known
    assert job.process.wait(timeout=60) != 0
    assert_only_finding(stack, job.job_id, ending.cause, ending.ranks)


@pytest.mark.slow  # it starts a job four times; tests/hub/test_restarts.py has starts whose numbers begin at 0 again
@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    ("launcher", "supervisor"),
    [((*TORCHRUN, "--max-restarts=5"), ()), (TORCHRUN, SUPERVISOR)],
    ids=["torchrun", "supervisor"],
)
def test_starts_that_fail_at_the_same_step_again_and_again_are_one_crash_loop(stack, jobs, launcher, supervisor):
    """A supervisor starts torchrun anew, which counts from 0 again."""
    job = jobs.start("bad batch", launcher, supervisor)
    loop = await_finding(stack, job.job_id, LOOP_SECONDS, cause="crash_loop", severity="critical")
    assert "each ended at step 31 by rank 1 on node-a: ValueError: bad batch 17" in loop["summary"]
    if not supervisor:
        assert "restarts left" in loop["summary"]
    assert job.process.poll() is None
    starts = loop["evidence"]["num_starts"]

    def loops() -> list[dict]:
        return [f for f in stack.findings(job.job_id, active=False) if f["cause"] == "crash_loop"]

    wait_for("another start failed", lambda: loops()[0]["evidence"]["num_starts"] > starts, LOOP_SECONDS / 3)
    if supervisor:
        assert {rank["attempt"] for rank in stack.ranks(job.job_id).values()} == {0}
        assert stack.alerts(job.job_id, "firing")
    assert [(f["id"], f["resolved"], f["ranks"]) for f in loops()] == [(loop["id"], None, [1])]


@pytest.mark.slow  # a drill cancels a job in every run
@pytest.mark.parametrize("launcher", [TORCHRUN, MPIRUN], ids=["torchrun", "mpirun"])
@pytest.mark.parametrize("name", OWNERS_ENDS)
def test_job_that_its_owner_ends_is_quiet(stack, jobs, name, launcher):
    job = jobs.start("", launcher)
    jobs.await_training(job)
    OWNERS_ENDS[name](job)
    job.process.wait(timeout=60)
    time.sleep(QUIET_SECONDS)
    assert stack.findings(job.job_id, active=False) == []
    assert stack.alerts(job.job_id, "firing") == []
    assert stack.zmon("status", "--job", job.job_id).returncode == 0


@pytest.mark.slow  # tests/detectors/hangs/test_sequence_lag.py has such ranks without a job
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("fault", "shift"), [("skipped backward", "less"), ("skipped update", "more")], ids=["backward", "update"]
)
def test_rank_that_swallows_an_exception_is_a_warning_while_the_job_trains(stack, jobs, fault, shift):
    job = jobs.start(fault)
    lag = await_finding(stack, job.job_id, cause="sequence_lag", severity="warning")
    assert lag["ranks"] == [1]
    assert f"1 step {shift}" in lag["summary"]
    assert job.process.poll() is None
    time.sleep(QUIET_SECONDS)
    assert [(f["cause"], f["ranks"]) for f in stack.findings(job.job_id, active=False)] == [("sequence_lag", [1])]
    assert {a["labels"]["severity"] for a in stack.alerts(job.job_id, "firing")} <= {"warning"}


@pytest.mark.slow  # tests/detectors/endings/table.py has this end without a job
def test_launcher_that_is_killed_while_its_ranks_go_on_is_a_warning(stack, jobs):
    job = jobs.start("")
    jobs.await_training(job)
    job.process.kill()
    job.process.wait(timeout=10)
    gone = await_finding(stack, job.job_id, cause="launcher_gone", severity="warning")
    assert (gone["ranks"], gone["resolved"]) == ([], None)
    assert f"process {job.process.pid} " in gone["summary"]
    assert [r["alive"] for r in stack.ranks(job.job_id).values()] == [True] * RANKS
    time.sleep(QUIET_SECONDS)
    assert [f["cause"] for f in stack.findings(job.job_id, active=False)] == ["launcher_gone"]


@pytest.mark.slow  # tests/hub/test_ended_jobs.py forgets boxes without a job
@pytest.mark.timeout(240)
def test_end_is_shown_after_the_boxes_are_deleted_and_the_agent_has_forgotten_them(stack, jobs):
    failed, cancelled = jobs.start("storage"), jobs.start("")
    jobs.await_training(cancelled)
    await_finding(stack, failed.job_id, cause="rank_exited", severity="critical")
    failed.process.wait(timeout=60)
    cancelled.signal(signal.SIGTERM)
    cancelled.process.wait(timeout=60)
    time.sleep(QUIET_SECONDS)
    for job in (failed, cancelled):
        shutil.rmtree(Path(stack.env["ZMON_BOX_DIR"]) / job.job_id)
    process_with(stack, "zmon agent").kill()
    wait_for("the agent is back", lambda: is_up(f"{stack.urls['agent']}/healthz"), 15)
    wait_for("it has forgotten the job", lambda: not stack.ranks(failed.job_id), 15)
    time.sleep(QUIET_SECONDS)
    status = stack.zmon("status", "--job", failed.job_id)
    shown = " ".join(status.stdout.split())
    assert (status.returncode, "rank_exited" in shown, "connection refused" in shown) == (1, True, True), shown
    assert stack.job(cancelled.job_id) is None  # no fault ended it, so it went with its boxes
