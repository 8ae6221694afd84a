"""Factories of capsules: by default of a stall of rank 2 of four."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.build import NOW, finding, rank_state, snapshot, step_record, waiting
from tests.steps import steps_of
from zmon.hub.incidents import capsule, moments, steps
from zmon.schema.finding import Finding
from zmon.schema.incident import Capsule
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

EVIDENCE = {
    "stacks": {"2": {"stack": 'File "train.py", line 12 in guilty_line', "wchan": "futex_wait", "stack_error": None}},
    "stderr_tail": {"2": {"text": "step 99\nlast line\n", "error": None, "path": "/logs/err", "shared": False}},
    "in_flight": {"0": {"pending": [], "num_pending": 0, "last": {"gloo:0": 300}}},
}


def stalled() -> Snapshot:
    """Return ranks of which rank 2 is stopped; the others wait for it."""
    return snapshot(rank_state(2, process_state="T"), *(waiting(rank, 1.0) for rank in (0, 1, 3)))


def last_steps(rank: RankState) -> steps.LastSteps:
    """Return three steps of a rank; the forward phase of rank 2 takes twice as long as that of the others."""
    phases = {"forward": 0.02 if rank.rank == 2 else 0.01}
    records = [step_record(number, phases, start=float(number)) for number in (1, 2, 3)]
    return steps.last_steps(rank, steps_of({rank.run_uid: records}), NOW - 1000)


def made(finding_: Finding | None = None, job: Snapshot | None = None, **changes: Any) -> tuple[Capsule, bytes]:
    """Return a capsule and its steps.jsonl."""
    finding_ = finding(evidence=EVIDENCE) if finding_ is None else finding_
    job = stalled() if job is None else job
    steps_ = [last_steps(rank) for rank in job.reported_ranks]
    built = capsule(finding_, job, steps_, left_out=(), versions={"hub": "0.1.0"}, collected=NOW + 3, seconds=0.5)
    rows, _ = steps.encode(steps_)
    return replace(built, timeline=moments.in_order(moments.opening(finding_)), **changes), rows
