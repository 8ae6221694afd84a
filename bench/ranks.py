"""Starts the ranks of a benchmark with torchrun, with one thread each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def run_ranks(module: str, *arguments: str, seconds: float, ranks: int = 2) -> list[dict[str, Any]]:
    """Run `module FOLDER ARGUMENTS…` on all ranks. Return the content of FOLDER/<rank>.json of each rank.

    Raises TimeoutExpired after `seconds`, and SystemExit with the output if the job fails.
    """
    with tempfile.TemporaryDirectory(prefix="zmon-bench-", dir="/dev/shm") as folder:
        launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")
        job = subprocess.Popen(
            (*launcher, "-m", module, folder, *arguments),
            env={**os.environ, "OMP_NUM_THREADS": "1", "ZMON_BOX_DIR": f"{folder}/boxes"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = job.communicate(timeout=seconds)
            if job.returncode:
                raise SystemExit(f"the job failed with exit code {job.returncode}:\n{output}")
            return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)]
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGTERM)  # torchrun then ends its ranks, which are in other sessions
                job.wait(60)
