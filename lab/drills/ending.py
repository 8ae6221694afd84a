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
# A job stands still if it ends no step for STILL_SECONDS, and for the time of STILL_STEPS p99 steps.
STILL_SECONDS = 1.5
STILL_STEPS = 3.0
SLOW_ENDS = {"rank_exited", "uneven_end", "connection_lost"}  # with these causes a process may take seconds to end


@dataclass(frozen=True)
class Aftermath:
    """The state of a job at the end of a play."""

    moves: bool  # it finished a step a moment ago that began after the fault
    restarted: bool  # its launcher started it again


def observe(scene: Scene, onset: float, slow_seconds: float, causes: Collection[str] = ()) -> Aftermath:
    """Return how the job goes on; `slow_seconds` is its p99 step, `causes` the true causes of the fault.

    If the launcher may start the job again, wait until the next launch has finished a step. It may if the struck rank
    is gone, if it is about to end by its fault, or if zmon may end it.
    """
    folder = scene.job.folder
    may_act = scene.stage.policy is not None and not _moves(folder, slow_seconds)
    if scene.job.spec.max_restarts and (may_act or not _runs(scene) or not SLOW_ENDS.isdisjoint(causes)):
        wait_until(lambda: scene.job.exit_code() is not None or launches(folder) > 1, RESTART_SECONDS)
    last = newest_step(folder)
    restarted = launches(folder) > 1
    if last is None or scene.job.exit_code() is not None:
        return Aftermath(False, restarted)
    began_after_fault = restarted or last > onset + 2 * slow_seconds
    return Aftermath(_moves(folder, slow_seconds) and began_after_fault, restarted)


def _moves(folder: Path, slow_seconds: float) -> bool:
    """Return True if a rank finished a step a moment ago."""
    last = newest_step(folder)
    return last is not None and time.time() - last < max(STILL_SECONDS, STILL_STEPS * slow_seconds)


def _runs(scene: Scene) -> bool:
    """Return True if the process of the struck rank runs."""
    return any(process.pid == scene.pid for process in running(scene.job.folder))
