"""Which job, attempt and rank is this process? Read from what its launcher put into the environment.

Understands torchrun (and whatever sets RANK, WORLD_SIZE, LOCAL_RANK as it does) and Slurm's srun.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from zmon.box.reader import JOB_ID
from zmon.errors import UsageError
from zmon.process import process_stat


@dataclass(frozen=True, slots=True)
class Launch:
    """How this process was started."""

    job_id: str
    attempt: int
    rank: int
    local_rank: int
    world_size: int
    local_world_size: int  # 0: nobody says how many ranks share this host
    restart_count: int
    max_restarts: int  # -1: no launcher that restarts
    launcher_pid: int
    launcher_start_ticks: int

    @property
    def one_host(self) -> bool:
        """Whether all ranks are known to share this host."""
        return self.world_size == self.local_world_size


def read_launch(env: Mapping[str, str], job_id: str | None = None) -> Launch:
    """The launch this environment tells of. Raises UsageError where no job id can be agreed on."""
    rank = _number(env, "RANK", "SLURM_PROCID", default=0)
    world_size = _number(env, "WORLD_SIZE", "SLURM_NTASKS", default=1)
    here = world_size == 1 or env.get("MASTER_ADDR") in ("localhost", "127.0.0.1", "::1")
    local_world_size = _number(env, "LOCAL_WORLD_SIZE", default=world_size if here else 0)
    if local_world_size == 0:  # Slurm spreads tasks evenly unless told otherwise
        local_world_size = world_size // _number(env, "SLURM_JOB_NUM_NODES", default=world_size + 1)
    restarts = _number(env, "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT", default=0)
    launcher = os.getppid()
    stat = process_stat(launcher)
    start_ticks = stat.start_ticks if stat else 0
    return Launch(
        job_id=_job_id(env, job_id, world_size != local_world_size, start_ticks),
        attempt=_number(env, "ZMON_ATTEMPT", default=restarts),
        rank=rank,
        local_rank=_number(
            env, "LOCAL_RANK", "SLURM_LOCALID", default=rank % local_world_size if local_world_size else rank
        ),
        world_size=world_size,
        local_world_size=local_world_size,
        restart_count=restarts,
        max_restarts=_number(env, "TORCHELASTIC_MAX_RESTARTS", default=-1),
        launcher_pid=launcher,
        launcher_start_ticks=start_ticks,
    )


def check_job_id(job_id: str) -> str:
    """The job id itself. Raises UsageError if it is none."""
    if not JOB_ID.fullmatch(job_id):
        raise UsageError(
            f"the job id {job_id!r} is not usable",
            "it may hold letters, digits, dots, dashes and underscores, 64 at most",
            "choose another with --job-id or ZMON_JOB_ID",
        )
    return job_id


def _job_id(env: Mapping[str, str], explicit: str | None, many_nodes: bool, launcher_ticks: int) -> str:
    slurm = env.get("SLURM_JOB_ID")
    torchrun = env.get("TORCHELASTIC_RUN_ID", "none")
    if found := explicit or env.get("ZMON_JOB_ID") or (slurm and f"slurm-{slurm}"):
        return check_job_id(found)
    if torchrun != "none":
        return check_job_id(torchrun)
    if many_nodes:
        raise UsageError(
            "this job has no id",
            "it runs on several nodes, which cannot agree on one by themselves",
            "set ZMON_JOB_ID or torchrun --rdzv-id; the job runs on unwatched",
        )
    # All ranks of one start have the same parent, so they agree on its start time.
    booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    started = datetime.fromtimestamp(int(booted.split()[1]) + launcher_ticks // os.sysconf("SC_CLK_TCK"), UTC)
    return check_job_id(f"{_script()[:47]}-{started:%Y%m%dT%H%MZ}")


def _script() -> str:
    path = Path(sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python")
    name = path.parent.name if path.name == "__main__.py" else path.stem
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name) or "python"


def _number(env: Mapping[str, str], *names: str, default: int) -> int:
    for name in names:
        if name in env:
            try:
                return int(env[name])
            except ValueError:
                raise UsageError(
                    f"{name}={env[name]!r} is not a number", "the launcher or a script set it so", "unset it"
                ) from None
    return default
