"""The store for checkpoints stops answering: a pipe that nobody reads stands where a rank saves."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from zmon.drills.drill import Scene, Strike
from zmon.drills.faults.sabotage import wait_until
from zmon.drills.orders import p99_seconds, steps_done
from zmon.errors import ZmonError

GOOD_CHECKPOINTS = 3  # of which zmon learns how long they take
STILL_SECONDS = 2.0


def checkpoint_hangs(scene: Scene) -> Strike:
    """After three good checkpoints the next one of this rank never ends."""
    folder, rank, spec = scene.job.folder, scene.rank, scene.job.spec
    between = spec.checkpoint_steps * (p99_seconds(folder) or spec.step_seconds)
    if not wait_until(lambda: steps_done(folder) > GOOD_CHECKPOINTS * spec.checkpoint_steps, 20 + 5 * between):
        raise ZmonError("the job does not save", "it stands still, or died", f"see {folder}/log")
    os.mkfifo(folder / "blocked")
    (folder / "blocked").rename(folder / f"checkpoint-{rank}.pt")
    if not wait_until(lambda: _stands_still(scene), 20 + 5 * between):
        raise ZmonError(f"rank {rank} does not wait for its checkpoint", "it was not time for one", f"see {folder}/log")
    onset = float((folder / f"saving-{rank}").read_text())  # the last one, which did not end
    state = scene.stage.ranks(spec.job_id).get(rank)
    lease = state.lease_seconds if state is not None else None
    if lease is None:
        raise ZmonError(f"nothing is known of the lease of rank {rank}", "the agent does not see it any more")
    return Strike(onset, lambda: _answer_again(folder, rank), lease_seconds=lease)


def _answer_again(folder: Path, rank: int) -> None:
    """Somebody reads what is saved, and the next checkpoint is a file again."""
    blocked = (folder / f"checkpoint-{rank}.pt").rename(folder / "blocked")
    threading.Thread(target=blocked.read_bytes, daemon=True).start()  # it ends with the checkpoint


def _stands_still(scene: Scene) -> bool:
    """Whether it saves, and did so two seconds ago: no good checkpoint of these jobs takes as long."""
    state = scene.stage.ranks(scene.job.spec.job_id).get(scene.rank)
    return state is not None and state.activity == "checkpoint" and state.activity_seconds > STILL_SECONDS
