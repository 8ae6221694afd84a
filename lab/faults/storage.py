"""Make the checkpoint store stop answering: replace a rank's checkpoint file by a pipe without a reader."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from lab.drills.drill import Injection, Scene
from lab.faults.sabotage import wait_until
from lab.jobs.orders import p99_seconds, steps_done
from zmon.errors import ZmonError

GOOD_CHECKPOINTS = 3  # zmon learns the duration of a checkpoint from this many
EXTRA_SECONDS = 20.0  # to wait for checkpoints, beside the time in which five of them are due
STUCK_SECONDS = 2.0  # a good checkpoint of these jobs is shorter


def checkpoint_hangs(scene: Scene) -> Injection:
    """Make a checkpoint of the struck rank never end, after three good ones."""
    folder = scene.job.folder
    rank = scene.rank
    spec = scene.job.spec
    between = spec.checkpoint_steps * (p99_seconds(folder) or spec.step_seconds)
    patience = EXTRA_SECONDS + 5 * between
    if not wait_until(lambda: steps_done(folder) > GOOD_CHECKPOINTS * spec.checkpoint_steps, patience):
        raise ZmonError("the job does not save", "it makes no progress, or died", f"see {folder}/log")
    os.mkfifo(folder / "blocked")
    (folder / "blocked").rename(folder / f"checkpoint-{rank}.pt")
    if not wait_until(lambda: _is_stuck(scene), patience):
        raise ZmonError(f"rank {rank} does not wait for its checkpoint", "none was due", f"see {folder}/log")
    onset = float((folder / f"saving-{rank}").read_text())  # the time at which the blocked checkpoint began
    state = scene.stage.ranks(spec.job_id).get(rank)
    lease = state.lease_seconds if state is not None else None
    if lease is None:
        raise ZmonError(f"the lease of rank {rank} is unknown", "the agent does not report the rank any more")
    return Injection(onset, lambda: _answer_again(folder, rank), lease_seconds=lease)


def _answer_again(folder: Path, rank: int) -> None:
    """Read the pipe, so that the checkpoint ends. The next checkpoint is a file again."""
    blocked = (folder / f"checkpoint-{rank}.pt").rename(folder / "blocked")
    threading.Thread(target=blocked.read_bytes, daemon=True).start()  # it ends with the checkpoint


def _is_stuck(scene: Scene) -> bool:
    """Return True if the rank has been saving for longer than a good checkpoint takes."""
    state = scene.stage.ranks(scene.job.spec.job_id).get(scene.rank)
    return state is not None and state.activity == "checkpoint" and state.activity_seconds > STUCK_SECONDS
