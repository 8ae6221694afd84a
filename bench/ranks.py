"""Starts the ranks of a benchmark with torchrun; each rank has one thread."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lab.jobs import FOLDER, inherited_environment
from lab.stage import JobSpec
from lab.stage.launched import Launched, launch

JOB_ID = "bench"
BOXES = "boxes"  # directory of the ranks' boxes, in the directory of the job
_LOG = "log"
_POLL_SECONDS = 0.05
_LAST_LINES = 80  # of the output, in the message of a job that failed


class JobFailed(SystemExit):
    """The job of a benchmark failed; if nobody catches it, the benchmark ends with the output of the job."""


def run_ranks(
    module: str, *arguments: str, seconds: float, ranks: int = 2, env: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Run `module FOLDER ARGUMENTS…` on all ranks. Return the content of FOLDER/<rank>.json of each rank.

    `env` adds to the environment of the ranks; its PYTHONPATH comes before this checkout.

    Raises JobFailed if the job fails or does not end within `seconds`.
    """
    with tempfile.TemporaryDirectory(prefix="zmon-bench-", dir="/dev/shm") as folder:
        run_job(Path(folder), module, *arguments, seconds=seconds, ranks=ranks, env=env)
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)]


def run_job(
    folder: Path, module: str, *arguments: str, seconds: float, ranks: int, env: dict[str, str] | None = None
) -> None:
    """Run `module FOLDER ARGUMENTS…` on all ranks until they end, with their boxes in FOLDER/boxes.

    Raises JobFailed if the job fails or does not end within `seconds`. No process of it is left afterwards.
    """
    job = start_job(folder, module, *arguments, ranks=ranks, env=env)
    deadline = time.monotonic() + seconds
    try:
        while (code := job.exit_code()) is None:
            if time.monotonic() > deadline:
                raise JobFailed(f"the job did not end within {seconds:.0f} s:\n{last_lines(folder)}")
            time.sleep(_POLL_SECONDS)
        if code:
            raise JobFailed(f"the job failed with exit code {code}:\n{last_lines(folder)}")
    finally:
        job.end()


def start_job(folder: Path, module: str, *arguments: str, ranks: int, env: dict[str, str] | None = None) -> Launched:
    """Start `module FOLDER ARGUMENTS…` on all ranks, with their boxes in FOLDER/boxes and their output in FOLDER/log.

    The caller must end the job.
    """
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1")
    launcher = (*torchrun, f"--nproc-per-node={ranks}")
    added = env or {}
    paths = (added.get("PYTHONPATH"), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))
    variables = {
        **added,
        FOLDER: str(folder),  # `Launched.end` recognizes the processes of the job by it
        "ZMON_BOX_DIR": str(folder / BOXES),
        "ZMON_JOB_ID": JOB_ID,
        "GLOO_SOCKET_IFNAME": "lo",  # otherwise gloo looks up the host's name, which fails on some offline machines
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    command = (*launcher, "-m", module, str(folder), *arguments)
    return launch(JobSpec(JOB_ID, ranks=ranks), folder, [(command, inherited_environment() | variables)])


def last_lines(folder: Path, log: str = _LOG) -> str:
    """Return the end of the output of the job in this folder, or of another log there."""
    lines = (folder / log).read_text(errors="replace").splitlines()
    return "\n".join(lines[-_LAST_LINES:])
