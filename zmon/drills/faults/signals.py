"""Signals from outside: a rank killed or stopped, a job ended by its owner."""

from __future__ import annotations

import os
import signal
import time

from zmon.drills.drill import Fault, Scene, Strike
from zmon.drills.faults.sabotage import everybody


def kill_rank(scene: Scene) -> Strike:
    """SIGKILL one rank."""
    os.kill(scene.pid, signal.SIGKILL)
    return Strike(time.time())


def stop_rank(scene: Scene) -> Strike:
    """SIGSTOP one rank, until SIGCONT."""
    os.kill(scene.pid, signal.SIGSTOP)
    return Strike(time.time(), lambda: os.kill(scene.pid, signal.SIGCONT))


def stop_rank_in_evaluation(scene: Scene) -> Strike:
    """SIGSTOP one rank while all of them evaluate."""
    everybody("evaluate", 30.0)(scene)
    time.sleep(scene.random.uniform(0.5, 2.0))
    return stop_rank(scene)


def owner_ends_it(number: int) -> Fault:
    """The signal that a person or a scheduler sends to torchrun."""

    def strike(scene: Scene) -> Strike:
        os.kill(scene.job.launchers[0], number)
        return Strike(time.time())

    return strike
