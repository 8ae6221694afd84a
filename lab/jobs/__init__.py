"""Start the jobs that drills strike. The scripts of the three kinds of jobs are in this directory."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.stage import JobSpec

JOBS_DIR = Path(__file__).parent
SCRIPTS = {"trainer": "bundled.py", "ddp": "ddp.py", "plain": "plain.py"}
FOLDER = "DRILL_FOLDER"  # environment variable with the directory of the job; it identifies the job's processes
EDGE = "ZMON_EDGE"  # environment variable that chooses the edge of the probe


def command(spec: JobSpec, *rendezvous: str, watch: Sequence[str] = ()) -> list[str]:
    """Return the command that starts a job; `rendezvous` has torchrun's options for the rendezvous.

    `watch` has the options of `zmon watch`, which then starts the job. Without them, `zmon run` starts a job that does
    not import zmon.
    """
    script = str(JOBS_DIR / SCRIPTS[spec.kind])
    prefix: list[str] = []
    if watch:
        prefix = [sys.executable, "-m", "zmon", "watch", *watch, "--"]
    elif spec.kind == "plain":
        prefix = [sys.executable, "-m", "zmon", "run", "--"]
    if spec.launcher != "torchrun":
        return [*prefix, sys.executable, str(JOBS_DIR / "without_torchrun.py"), spec.launcher, str(spec.ranks), script]
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--max-restarts={spec.max_restarts}", *rendezvous]
    return [*prefix, *torchrun, script]


def environment(spec: JobSpec, folder: Path, box_dir: Path) -> dict[str, str]:
    """Return the environment that the launchers of a job are started with."""
    # Otherwise ranks read old addresses from the launchers' store after a restart.
    fresh_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if spec.launchers > 1 or spec.max_restarts else {}
    return (
        inherited_environment()
        | fresh_store
        | {
            "ZMON_JOB_ID": spec.job_id,
            "ZMON_BOX_DIR": str(box_dir),
            FOLDER: str(folder),
            "DRILL": json.dumps({**dataclasses.asdict(spec), "folder": str(folder)}),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(JOBS_DIR.parents[1]),
        }
    )


def inherited_environment() -> dict[str, str]:
    """Return the environment of this process without the user's settings of zmon, which are for other jobs.

    The choice of the probe's edge stays, so that both edges can be drilled.
    """
    return {name: value for name, value in os.environ.items() if name == EDGE or not name.startswith("ZMON_")}
