"""Send signals: kill or stop a rank, or end a job as its owner would."""

from __future__ import annotations

import contextlib
import time

import psutil

from lab.drills.drill import Fault, Injection, Scene
from lab.faults.sabotage import many_ranks
from lab.stage.launched import running
from zmon.errors import ZmonError

EVALUATION_SECONDS = 30.0


def kill_rank(scene: Scene) -> Injection:
    """Send SIGKILL to one rank."""
    process_of(scene).kill()
    return Injection(time.time())


def stop_rank(scene: Scene) -> Injection:
    """Send SIGSTOP to one rank; SIGCONT lifts it."""
    rank = process_of(scene)
    rank.suspend()
    return Injection(time.time(), lambda: go_on(rank))


def stop_rank_in_evaluation(scene: Scene) -> Injection:
    """Send SIGSTOP to one rank while all of them evaluate."""
    many_ranks("evaluate", EVALUATION_SECONDS)(scene)
    time.sleep(scene.random.uniform(0.5, 2.0))
    return stop_rank(scene)


def cancel(number: int) -> Fault:
    """Return a fault that sends the first launcher of the job a signal, as a person or a scheduler does."""

    def inject(scene: Scene) -> Injection:
        scene.job.signal(number)
        return Injection(time.time())

    return inject


def process_of(scene: Scene) -> psutil.Process:
    """Return the process of the struck rank; psutil notices a reused pid. Raises ZmonError if the rank is gone."""
    for process in running(scene.job.folder):
        if process.pid == scene.pid:
            return process
    raise ZmonError(f"cannot strike rank {scene.rank}", "it died before the fault", f"see {scene.job.folder}/log")


def go_on(process: psutil.Process) -> None:
    """Send SIGCONT to a process that may have died meanwhile."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()
