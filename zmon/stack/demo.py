"""The training of `zmon demo`: the bundled trainer under torchrun, as one more part of the stack."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from zmon.stack.part import Part

NICENESS = 5  # leaves CPU time for the dashboard on a small machine


@dataclass(frozen=True)
class DemoConfig:
    """Options of `zmon demo`, and the ID of its job, which is new for every demo."""

    job_id: str
    ranks: int = 4
    seconds: float | None = None  # None: until Ctrl-C
    data: Path | None = None


def trainer_part(config: DemoConfig, log: Path, box_dir: Path | None, host: str) -> Part:
    """Return the bundled trainer under torchrun, as a part of the stack."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={config.ranks}",
        "-m", "trainer", "--preset", "demo",
    ]  # fmt: skip
    if config.data is not None:
        command += ["--data", str(config.data.resolve())]
    env = {
        "ZMON_JOB_ID": config.job_id,
        **({} if box_dir is None else {"ZMON_BOX_DIR": str(box_dir)}),
        "ZMON_HOST": host,
        "ZMON_LABELS": "name=zmon demo,model=dlrm",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    log.write_bytes(b"")
    return Part("trainer", command, "", None, log, env, nice=NICENESS)
