"""Make boxes, append them to a step log, and read the log."""

from __future__ import annotations

from pathlib import Path

from tests.boxes import Box, all_ends
from tests.build import JOB
from tests.steps import StepRecord, only_records
from zmon.box.reader import BoxReader
from zmon.box.steps import whole_steps
from zmon.steplog import RunSteps, StepLog, read_runs


def rank_box(root: Path, rank: int = 0, run: int = 0, **identity: object) -> Box:
    """Make the box of one run of a rank; another `run` has another uid and starts later."""
    uid = f"{run:02x}{rank:02x}" * 8
    start = 1_700_000_000.0 + run  # unix seconds
    return Box(root, identity={"run_uid": uid, "start_unix": start, "rank": rank, "world_size": 64, **identity})


def inodes(*boxes: Box) -> dict[Path, int]:
    """Return the boxes as the agent passes them to the log: inode by path."""
    return {box.path: box.path.stat().st_ino for box in boxes}


def logged(root: Path) -> list[RunSteps]:
    """Return the runs in the log."""
    runs, unusable = read_runs(root / JOB)
    assert unusable == []
    return runs


def records(run: RunSteps) -> list[StepRecord]:
    """Return all steps of a run in the log."""
    return [record for chunk in run.chunks() for record in only_records(chunk.steps)]


def step_numbers(run: RunSteps) -> list[int]:
    """Return the numbers of all steps of a run in the log."""
    return [record.step for record in records(run)]


def reports(run: RunSteps) -> list[dict[str, float]]:
    """Return the gauges of each step of a run in the log."""
    return [dict(reported) for chunk in run.chunks() for reported in chunk.reported]


def ring_records(box: Box) -> list[StepRecord]:
    """Return the steps in the ring of a box, in unix time."""
    reader = BoxReader(box.path)
    try:
        return only_records(whole_steps({"": all_ends(reader)}, unix=True))
    finally:
        reader.close()


def segments(root: Path, job: str = JOB) -> list[Path]:
    """Return the files of a job, oldest first."""
    return sorted((root / job).glob("*.steps"))


def grow(log: StepLog, box: Box, num_steps: int) -> None:
    """Let the rank of a box take some steps, and append them to the log."""
    box.steps(num_steps)
    assert log.append(inodes(box)) == ()


def append_once(root: Path, *boxes: Box) -> tuple[str, ...]:
    """Append the boxes to the log once, like an agent that stops after one pass."""
    log = StepLog(root, "node-a")
    try:
        return log.append(inodes(*boxes))
    finally:
        log.close()
