"""Boxes, a log of them, and what comes out of it again."""

from __future__ import annotations

from pathlib import Path

from tests.boxes import Box
from tests.build import JOB
from zmon.box.reader import BoxReader
from zmon.schema.step import StepRecord
from zmon.steplog import RunSteps, StepLog, read_runs


def rank_box(root: Path, rank: int = 0, run: int = 0, **identity: object) -> Box:
    """A box of one run of a rank; another `run` has another uid and starts later."""
    uid, start = f"{run:02x}{rank:02x}" * 8, 1_700_000_000.0 + run
    return Box(root, identity={"run_uid": uid, "start_unix": start, "rank": rank, "world_size": 64, **identity})


def inodes(*boxes: Box) -> dict[Path, int]:
    """As the agent hands them to the log."""
    return {box.path: box.path.stat().st_ino for box in boxes}


def logged(root: Path, job: str = JOB) -> list[RunSteps]:
    """The runs in the log."""
    runs, unusable = read_runs(root / job)
    assert unusable == []
    return runs


def step_numbers(run: RunSteps) -> list[int]:
    """Of every step of the run that is there."""
    return [record.step for _, record, _ in run.steps()]


def told_by(box: Box) -> list[StepRecord]:
    """The steps that are in the ring."""
    reader = BoxReader(box.path)
    try:
        return [record for _, record in reader.records(0)]
    finally:
        reader.close()


def segments(root: Path, job: str = JOB) -> list[Path]:
    """The files of a job, oldest first."""
    return sorted((root / job).glob("*.steps"))


def append_once(root: Path, *boxes: Box) -> tuple[str, ...]:
    """An agent that looks once and goes."""
    log = StepLog(root, "node-a")
    try:
        return log.append(inodes(*boxes))
    finally:
        log.close()
