"""Signals from outside: a rank killed or stopped, a job ended by its owner."""

from __future__ import annotations

import contextlib
import time

import psutil

from zmon.drills.drill import Fault, Scene, Strike
from zmon.drills.faults.sabotage import everybody
from zmon.drills.launched import running
from zmon.errors import ZmonError


def kill_rank(scene: Scene) -> Strike:
    """SIGKILL one rank."""
    process_of(scene).kill()
    return Strike(time.time())


def stop_rank(scene: Scene) -> Strike:
    """SIGSTOP one rank, until SIGCONT."""
    rank = process_of(scene)
    rank.suspend()
    return Strike(time.time(), lambda: go_on(rank))


def stop_rank_in_evaluation(scene: Scene) -> Strike:
    """SIGSTOP one rank while all of them evaluate."""
    everybody("evaluate", 30.0)(scene)
    time.sleep(scene.random.uniform(0.5, 2.0))
    return stop_rank(scene)


def owner_ends_it(number: int) -> Fault:
    """The signal that a person or a scheduler sends to torchrun."""

    def strike(scene: Scene) -> Strike:
        scene.job.signal(number)
        return Strike(time.time())

    return strike


def process_of(scene: Scene) -> psutil.Process:
    """The struck rank's, which stays that one whoever gets its pid later. Raises ZmonError where it is gone."""
    for process in running(scene.job.folder):
        if process.pid == scene.pid:
            return process
    raise ZmonError(f"rank {scene.rank} cannot be struck", "it died before", f"see {scene.job.folder}/log")


def go_on(process: psutil.Process) -> None:
    """SIGCONT, to one that may have died meanwhile."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()
