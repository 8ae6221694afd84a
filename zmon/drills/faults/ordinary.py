"""What happens to healthy jobs and wakes nobody: they end, share a host, begin beside the remains of others."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time

from zmon.agent.sources.rank_box import LEFT_BEHIND_SECONDS
from zmon.drills import jobs
from zmon.drills.drill import Scene, Strike
from zmon.drills.faults.sabotage import wait_until
from zmon.drills.launched import kill_all, launch
from zmon.drills.orders import steps_done
from zmon.errors import ZmonError

END_SECONDS = 120.0
CONTENTION_SECONDS = 2.0
BURNERS_PER_CORE = 2
BURN = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"


def nothing(scene: Scene) -> Strike:
    """It goes on as it is."""
    return Strike(time.time())


def finishes(scene: Scene) -> Strike:
    """It trains to its end."""
    if not wait_until(lambda: scene.job.exit_code() is not None, END_SECONDS):
        raise ZmonError("the job does not end", "it stands still", f"see {scene.job.folder}/log")
    if code := scene.job.exit_code():
        why = "torch 2.13 aborts a rank at its very end now and then"
        raise ZmonError(f"the job ended with exit code {code}", why, f"see {scene.job.folder}/log")
    return Strike(time.time())


def contention(scene: Scene) -> Strike:
    """Other programs take the processors for two seconds."""
    command = [sys.executable, "-c", BURN, str(CONTENTION_SECONDS)]
    burners = [subprocess.Popen(command) for _ in range(BURNERS_PER_CORE * (os.cpu_count() or 1))]
    onset = time.time()
    for burner in burners:
        burner.wait()
    return Strike(onset)


def second_job(scene: Scene) -> Strike:
    """Another job starts on the same host, trains and is ended by its owner."""
    spec = dataclasses.replace(scene.job.spec, job_id=f"{scene.job.spec.job_id}-2", ranks=2)
    other = scene.stage.start(spec)
    try:
        onset = time.time()
        if not wait_until(lambda: steps_done(other.folder) > 10, END_SECONDS):
            raise ZmonError("the second job does not train", "the machine is too small", f"see {other.folder}/log")
        other.signal(signal.SIGTERM)
        wait_until(lambda: other.exit_code() is not None, 20)
    finally:
        other.end()
    return Strike(onset)


def left_box(scene: Scene) -> Strike:
    """The boxes of a job that died a while before anybody looked appear where the agent looks."""
    folder = scene.job.folder / "elsewhere"
    folder.mkdir()
    spec = dataclasses.replace(scene.job.spec, job_id=f"{scene.job.spec.job_id}-left", kind="ddp", ranks=2)
    command = jobs.command(spec, "--standalone", "--nproc-per-node=2")
    other = launch(spec, folder, [(command, jobs.environment(spec, folder, folder / "boxes"))])
    try:
        if not wait_until(lambda: steps_done(folder) > 10, END_SECONDS):
            raise ZmonError("the job that is to die does not train", "the machine is too small", f"see {folder}/log")
        kill_all(folder)
    finally:
        other.end()
    time.sleep(LEFT_BEHIND_SECONDS + 2)
    onset = time.time()
    (folder / "boxes" / spec.job_id).rename(scene.stage.folder / "boxes" / spec.job_id)
    return Strike(onset)


def fewer_ranks(scene: Scene) -> Strike:
    """One of the launchers is ended by its owner; the job goes on with the ranks of the other."""
    before = steps_done(scene.job.folder)
    onset = time.time()
    scene.job.signal(signal.SIGTERM, -1)
    time.sleep(5.0)
    if not wait_until(lambda: steps_done(scene.job.folder) != before and _trains(scene), END_SECONDS / 2):
        raise ZmonError("the job did not go on", "its launcher gave up", f"see {scene.job.folder}/log")
    return Strike(onset)


def _trains(scene: Scene) -> bool:
    view = scene.stage.job(scene.job.spec.job_id)
    return view is not None and view.world_size < scene.job.spec.ranks and view.state == "train"
