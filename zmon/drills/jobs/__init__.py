"""The jobs that drills strike: three kinds, the same seams. Here is how they are started; the scripts are beside."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path

from zmon.drills.stage import JobSpec

HERE = Path(__file__).parent
SCRIPTS = {"trainer": "bundled.py", "ddp": "ddp.py", "plain": "plain.py"}
FOLDER = "DRILL_FOLDER"  # the variable by which all processes of a job are known


def command(spec: JobSpec, *launcher: str) -> list[str]:
    """The torchrun of a job; `launcher` says how its nodes and ranks meet. What does not know zmon is run by it."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--max-restarts={spec.max_restarts}", *launcher]
    watched = [sys.executable, "-m", "zmon", "run", "--"] if spec.kind == "plain" else []
    return [*watched, *torchrun, str(HERE / SCRIPTS[spec.kind])]


def environment(spec: JobSpec, folder: Path, box_dir: Path) -> dict[str, str]:
    """All that its launchers are started with."""
    return inherited() | {
        "ZMON_JOB_ID": spec.job_id,
        "ZMON_BOX_DIR": str(box_dir),
        FOLDER: str(folder),
        "DRILL": json.dumps({**dataclasses.asdict(spec), "folder": str(folder)}),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(HERE.parents[2]),
    }


def inherited() -> dict[str, str]:
    """Our own environment, without what the person told zmon: that is about their jobs and their pager."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
