"""Observe a job after a fault, without zmon: whether it finishes steps, and whether it was started again."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lab.drills.drill import Scene
from lab.faults.sabotage import wait_until
from lab.jobs.orders import launches, newest_step
from lab.stage.launched import running

RESTART_SECONDS = 90.0  # for the ranks of another launch to finish a step, on a machine with much else to do
FLOOR_SECONDS = 1.5  # a job stands still if it ends no step for this long, and for STEPS of its p99 steps
STEPS = 3.0
ENDS = {"rank_exited", "uneven_end", "connection_lost"}  # causes by which a process may take seconds to end


@dataclass(frozen=True)
class Aftermath:
    """The state of a job at the end of a play."""

    moves: bool  # it finished a step a moment ago that began after the fault
    restarted: bool  # its launcher started it again


def observe(scene: Scene, onset: float, slow_seconds: float, causes: Collection[str] = ()) -> Aftermath:
    """Return how the job goes on; `slow_seconds` is its p99 step.

    If the struck rank is gone, or is about to end by one of the `causes` or by an act, wait for the first step of the
    next launch.
    """
    folder = scene.job.folder
    may_act = scene.stage.policy is not None and not _moves(folder, slow_seconds)
    if scene.job.spec.max_restarts and (may_act or not _runs(scene) or not ENDS.isdisjoint(causes)):
        wait_until(lambda: scene.job.exit_code() is not None or launches(folder) > 1, RESTART_SECONDS)
    last = newest_step(folder)
    restarted = launches(folder) > 1
    if last is None or scene.job.exit_code() is not None:
        return Aftermath(False, restarted)
    return Aftermath(_moves(folder, slow_seconds) and (restarted or last > onset + 2 * slow_seconds), restarted)


def _moves(folder: Path, slow_seconds: float) -> bool:
    last = newest_step(folder)
    return last is not None and time.time() - last < max(FLOOR_SECONDS, STEPS * slow_seconds)


def _runs(scene: Scene) -> bool:
    return any(process.pid == scene.pid for process in running(scene.job.folder))
