"""Tests of real jobs that two faults strike one after the other: both culprits are named, in one finding."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.endings import MPIRUN, NO_LAUNCHER, TORCHRUN, await_finding
from tests.e2e.running_stack import RunningStack, wait_for

JOINED_SECONDS = 20.0
SETTLED_SECONDS = 5.0
PAGE_SECONDS = 10.0
FIRST, SECOND = 1, 2


@dataclass(frozen=True)
class Overlap:
    """Two faults of one job, and the launcher of the job."""

    first_fault: str  # of the job's script; "": the first rank is stopped
    cause: str
    severity: str  # of the first fault alone
    second_signal: signal.Signals
    launcher: tuple[str, ...]


OVERLAPS = {
    "killed_beside_frozen": Overlap("", "rank_frozen", "critical", signal.SIGKILL, NO_LAUNCHER),
    "killed_beside_frozen_under_torchrun": Overlap("", "rank_frozen", "critical", signal.SIGKILL, TORCHRUN),
    "killed_beside_frozen_under_mpirun": Overlap("", "rank_frozen", "critical", signal.SIGKILL, MPIRUN),
    "killed_beside_hung": Overlap("hang", "compute_hang", "warning", signal.SIGKILL, NO_LAUNCHER),
    "frozen_beside_hung": Overlap("hang", "compute_hang", "warning", signal.SIGSTOP, TORCHRUN),
}


@pytest.mark.slow  # tests/job/test_merging.py joins faults without a job
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", OVERLAPS)
def test_second_culprit_joins_the_finding_with_its_severity_and_advice(stack, jobs, name):
    overlap = OVERLAPS[name]
    job = jobs.start(overlap.first_fault, overlap.launcher)
    if not overlap.first_fault:
        jobs.await_training(job)
        os.kill(stack.ranks(job.job_id)[FIRST]["pid"], signal.SIGSTOP)
    first = await_finding(stack, job.job_id, cause=overlap.cause, severity=overlap.severity)
    assert first["ranks"] == [FIRST]
    os.kill(stack.ranks(job.job_id)[SECOND]["pid"], overlap.second_signal)
    joined = await_finding(stack, job.job_id, JOINED_SECONDS, ranks=[FIRST, SECOND])
    second_cause = "rank_frozen" if overlap.second_signal == signal.SIGSTOP else "rank_exited"
    assert (joined["id"], joined["cause"], joined["severity"]) == (first["id"], overlap.cause, "critical")
    assert [(f["cause"], f["ranks"]) for f in joined["evidence"]["joined"]] == [(second_cause, [SECOND])]
    assert f"; also: rank {SECOND} " in joined["summary"]
    assert f"Also, about {second_cause}: " in joined["detail"]
    time.sleep(SETTLED_SECONDS)  # no other finding opens
    findings = stack.findings(job.job_id, active=False)
    assert [(f["id"], f["ranks"]) for f in findings] == [(first["id"], [FIRST, SECOND])]
    alerts = wait_for("a page", lambda: _critical_alerts(stack, job.job_id), PAGE_SECONDS)
    assert {a["labels"]["alertname"] for a in alerts} == {"ZmonStall"}
    (summary,) = {a["annotations"]["summary"] for a in alerts}
    assert f"{overlap.cause}, rank {FIRST} on node-a;" in summary  # the alert keeps the labels of the first culprit


def _critical_alerts(stack: RunningStack, job_id: str) -> list[dict[str, Any]]:
    return [a for a in stack.alerts(job_id, "firing") if a["labels"]["severity"] == "critical"]
