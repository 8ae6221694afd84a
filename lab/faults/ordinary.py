"""Cause ordinary events about which zmon must not page: a suspended host, a debugger, a second job, an old box."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from lab import jobs
from lab.drills.drill import Injection, Scene
from lab.faults.sabotage import wait_until
from lab.faults.signals import go_on, process_of
from lab.jobs.orders import steps_done
from lab.stage.launched import kill_all, launch, running
from zmon.agent.sources.rank_box import LEFT_BEHIND_SECONDS
from zmon.errors import ZmonError

END_SECONDS = 120.0  # for a job to train or to end, on a machine with much else to do
GO_ON_SECONDS = 60.0  # for the rest of a job to train again
CANCEL_SECONDS = 20.0  # for a job to end after the signal of its owner
TRAINED_STEPS = 10  # of a job that is started beside the first one
CONTENTION_SECONDS = 2.0
SUSPENDED_SECONDS = 6.0
DEBUGGED_SECONDS = 12.0
LEFT_SECONDS = 5.0  # from the signal to one launcher to the first look at the ranks of the other
BURNERS_PER_CORE = 2
BURN = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"
# PTRACE_ATTACH (16), wait with __WALL, PTRACE_DETACH (17) of every thread: ptrace(2).
# Stops all threads of a process, and continues them after some seconds.
TRACE = """import ctypes, os, sys, time
call, pid = ctypes.CDLL(None).ptrace, int(sys.argv[1])
threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
traced = [thread for thread in threads if call(16, thread, None, None) == 0]
for thread in traced:
    os.waitpid(thread, 0x40000000)
time.sleep(float(sys.argv[2]))
for thread in traced:
    call(17, thread, None, None)
sys.exit(not traced)"""


def nothing(scene: Scene) -> Injection:
    """Do nothing: the job goes on as it is."""
    return Injection(time.time())


def finishes(scene: Scene) -> Injection:
    """Wait until the job has trained to its end. Raises ZmonError."""
    if not wait_until(lambda: scene.job.exit_code() is not None, END_SECONDS):
        raise ZmonError("the job does not end", "it makes no progress", f"see {scene.job.folder}/log")
    if code := scene.job.exit_code():
        cause = "a rank failed; torch 2.13 sometimes aborts one at its very end"
        raise ZmonError(f"the job ended with exit code {code}", cause, f"see {scene.job.folder}/log")
    return Injection(time.time())


def contention(scene: Scene) -> Injection:
    """Run other programs that use all processors for some seconds."""
    command = [sys.executable, "-c", BURN, str(CONTENTION_SECONDS)]
    burners = [subprocess.Popen(command) for _ in range(BURNERS_PER_CORE * (os.cpu_count() or 1))]
    onset = time.time()
    for burner in burners:
        burner.wait()
    return Injection(onset)


def suspended(scene: Scene) -> Injection:
    """Stop zmon and the job for some seconds, twice, as when a virtual machine is moved: only clocks go on."""
    onset = time.time()
    for _ in range(2):
        roots = [scene.stage.supervisor(), *map(psutil.Process, scene.job.launchers)]
        # The agent goes on before the ranks: it must report no stall although no step has ended since.
        _suspend([process for root in roots for process in (root, *root.children(recursive=True))])
        time.sleep(SUSPENDED_SECONDS)
    return Injection(onset)


def job_suspended(scene: Scene) -> Injection:
    """Stop the launchers and all ranks of the job for some seconds, as `scontrol suspend` does."""
    processes = running(scene.job.folder)
    onset = time.time()
    _suspend(processes)
    return Injection(onset)


def _suspend(processes: Sequence[psutil.Process]) -> None:
    """Stop processes for some seconds; they go on in this order."""
    try:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        time.sleep(SUSPENDED_SECONDS)
    finally:
        for process in processes:
            go_on(process)


def debugger(scene: Scene) -> Injection:
    """Trace all threads of one rank for some seconds, as gdb does at a breakpoint. Raises ZmonError."""
    onset = time.time()
    command = [sys.executable, "-c", TRACE, str(process_of(scene).pid), str(DEBUGGED_SECONDS)]
    if subprocess.run(command, timeout=DEBUGGED_SECONDS + END_SECONDS, check=False).returncode:
        raise ZmonError("the rank cannot be traced", "ptrace is not permitted", "play the drill as root")
    return Injection(onset)


def second_job(scene: Scene) -> Injection:
    """Start another job on the same host, let it train, and end it as its owner would. Raises ZmonError."""
    spec = dataclasses.replace(scene.job.spec, job_id=f"{scene.job.spec.job_id}-2", ranks=2)
    other = scene.stage.start(spec)
    try:
        onset = time.time()
        _await_steps(other.folder, "the second job")
        other.signal(signal.SIGTERM)
        wait_until(lambda: other.exit_code() is not None, CANCEL_SECONDS)  # if it does not end, `end` kills it
    finally:
        other.end()
    return Injection(onset)


def left_box(scene: Scene) -> Injection:
    """Kill another job, and move its boxes into the agent's box directory once they are old. Raises ZmonError."""
    folder = scene.job.folder / "elsewhere"
    folder.mkdir()
    spec = dataclasses.replace(scene.job.spec, job_id=f"{scene.job.spec.job_id}-left", kind="ddp", ranks=2)
    command = jobs.command(spec, "--standalone", "--nproc-per-node=2")
    other = launch(spec, folder, [(command, jobs.environment(spec, folder, folder / "boxes"))])
    try:
        _await_steps(folder, "the job to kill")
        kill_all(folder)
    finally:
        other.end()
    time.sleep(LEFT_BEHIND_SECONDS + 2)
    onset = time.time()
    (folder / "boxes" / spec.job_id).rename(scene.stage.folder / "boxes" / spec.job_id)
    return Injection(onset)


def _await_steps(folder: Path, job: str) -> None:
    """Wait until a job has trained for some steps. Raises ZmonError."""
    if not wait_until(lambda: steps_done(folder) > TRAINED_STEPS, END_SECONDS):
        raise ZmonError(
            f"{job} does not train", f"it took no {TRAINED_STEPS} steps in {END_SECONDS:g} s", f"see {folder}/log"
        )


def fewer_ranks(scene: Scene) -> Injection:
    """End one of the launchers as its owner would; the job goes on with the ranks of the other. Raises ZmonError."""
    onset = time.time()
    scene.job.signal(signal.SIGTERM, -1)
    time.sleep(LEFT_SECONDS)
    steps_before = steps_done(scene.job.folder)
    # A new launch counts its steps from 1, so the number may fall.
    if not wait_until(lambda: steps_done(scene.job.folder) != steps_before and _trains(scene), GO_ON_SECONDS):
        raise ZmonError("the job did not go on", "its launcher gave up", f"see {scene.job.folder}/log")
    return Injection(onset)


def _trains(scene: Scene) -> bool:
    """Return True if zmon shows that the job trains with fewer ranks."""
    view = scene.stage.job(scene.job.spec.job_id)
    return view is not None and view.world_size < scene.job.spec.ranks and view.state == "train"
