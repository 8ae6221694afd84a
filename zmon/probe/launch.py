"""Reads job, attempt, rank and labels of this process from the variables that its launcher set.

Supported launchers are torchrun (and others that set RANK, WORLD_SIZE and LOCAL_RANK), the mpirun of Open MPI and
MPICH, and Slurm's srun, in this order. mpirun comes before srun because it may start its ranks below a task of srun,
and then the variables of srun do not describe them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from zmon.box.identity import LABELS_BYTES
from zmon.errors import UsageError
from zmon.probe.complaints import complain
from zmon.process import process_stat
from zmon.schema.names import JOB_ID, LABEL_LIMITS, MAX_JOB_ID_LETTERS, bounded_labels

RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
WORLD_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
LOCAL_WORLD_SIZE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
# Set by `zmon watch` for its command: `NUMBER.TICKS`, its number and the start of the launch in clock ticks after boot.
WATCH = "ZMON_WATCH"
THIS_HOST = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class LaunchEnvironment:
    """Facts about the launch of this process, with the names that they have in the identity of its box."""

    job_id: str
    attempt: int
    rank: int
    local_rank: int
    world_size: int
    local_world_size: int  # 0: unknown how many ranks share this host
    restart_count: int
    max_restarts: int | None  # None: the launcher does not restart ranks
    launcher_pid: int
    launcher_start: int  # clock ticks after boot
    watch: int  # the number of the `zmon watch` that this process was started under; 0: none

    @property
    def one_host(self) -> bool:
        """Return True if all ranks are known to share this host."""
        return self.world_size == self.local_world_size


def read_launch(
    env: Mapping[str, str],
    job_id: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    init_method: str | None = None,
) -> LaunchEnvironment:
    """Read the launch environment; raises UsageError if the ranks cannot agree on a job id.

    `rank`, `world_size` and `init_method` are the arguments of the process group. They take precedence over the
    environment. If they contradict it, the launcher started the parent of this rank and not the rank itself, as with
    torch.multiprocessing.spawn.
    """
    env_rank, env_world_size = _number(env, *RANK, default=0), _number(env, *WORLD_SIZE, default=1)
    rank = env_rank if rank is None else rank
    world_size = env_world_size if world_size is None else world_size
    is_local = world_size == 1 or _rendezvous_host(env, init_method) in THIS_HOST
    names: tuple[str, ...] = LOCAL_WORLD_SIZE if world_size == env_world_size else ()
    local_world_size = _number(env, *names, default=world_size if is_local else 0)
    if local_world_size == 0:  # Slurm by default spreads tasks evenly over nodes
        local_world_size = world_size // _number(env, "SLURM_JOB_NUM_NODES", default=world_size + 1)
    names = LOCAL_RANK if (rank, world_size) == (env_rank, env_world_size) else ()
    local_rank = _number(env, *names, default=rank % local_world_size if local_world_size else rank)
    many_nodes = world_size != local_world_size and not (init_method or "").startswith("file:")  # file: one node
    max_restarts = _number(env, "TORCHELASTIC_MAX_RESTARTS", default=-1)
    restarts = _number(env, "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT", default=0)
    launcher = os.getppid()
    stat = process_stat(launcher)
    start_ticks = stat.start_ticks if stat else 0
    watch, watch_ticks = _watch(env)
    return LaunchEnvironment(
        job_id=_job_id(env, job_id, many_nodes, watch_ticks or start_ticks, watch),
        attempt=_number(env, "ZMON_ATTEMPT", default=restarts),
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        local_world_size=local_world_size,
        restart_count=restarts,
        max_restarts=max_restarts if max_restarts >= 0 else None,
        launcher_pid=launcher,
        launcher_start=start_ticks,
        watch=watch,
    )


def parse_labels(pairs: str) -> dict[str, str]:
    """Parse `owner=ann,model=dlrm` to a dictionary; parts that are not pairs are left out."""
    split = (pair.split("=", 1) for pair in pairs.split(",") if "=" in pair)
    return {key.strip(): value.strip() for key, value in split}


def storable_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that the box can hold; complain about the others."""
    texts = {str(key): str(value) for key, value in labels.items()}
    stored = bounded_labels(texts)
    if num_dropped := len(texts) - len(stored):
        complain(f"cannot store {num_dropped} of {len(texts)} labels of this job: {LABEL_LIMITS}. Shorten them")
    if len(json.dumps(stored)) >= LABELS_BYTES:
        complain(f"cannot store the labels of this job: they are longer than {LABELS_BYTES:,} bytes. Shorten them")
        return {}
    return stored


def check_job_id(job_id: str) -> str:
    """Return the job id; raises UsageError if it is not valid."""
    if not JOB_ID.fullmatch(job_id):
        raise UsageError(
            f"the job id {job_id!r} is not usable",
            f"a job id has at most {MAX_JOB_ID_LETTERS} letters, digits, dots, dashes and underscores",
            "Choose another one with --job-id or ZMON_JOB_ID",
        )
    return job_id


def _watch(env: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of the `zmon watch` above and the start of its launch; 0 and 0 if there is none."""
    number, _, ticks = env.get(WATCH, "").partition(".")
    return (int(number), int(ticks)) if number.isdecimal() and ticks.isdecimal() else (0, 0)


def _job_id(env: Mapping[str, str], explicit: str | None, many_nodes: bool, launcher_ticks: int, watch: int = 0) -> str:
    slurm = env.get("SLURM_JOB_ID")
    torchrun = env.get("TORCHELASTIC_RUN_ID", "none")
    if job_id := explicit or env.get("ZMON_JOB_ID") or (slurm and f"slurm-{slurm}"):
        return check_job_id(job_id)
    if torchrun != "none":
        return check_job_id(torchrun)
    if many_nodes:
        raise UsageError(
            "this job has no id",
            "it runs on several nodes, which cannot agree on an id by themselves",
            "Set ZMON_JOB_ID or torchrun --rdzv-id; the job continues unwatched",
        )
    # All ranks of one launch have the same parent, so they agree on its start time.
    boot_line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    started = datetime.fromtimestamp(int(boot_line.split()[1]) + launcher_ticks // os.sysconf("SC_CLK_TCK"), UTC)
    # Jobs of a sweep start the same script in the same minute; each has a watch of its own.
    suffix = f"-{watch & 0xFFFF:04x}" if watch else ""
    return check_job_id(f"{_script()[: 47 - len(suffix)]}-{started:%Y%m%dT%H%MZ}{suffix}")


def _rendezvous_host(env: Mapping[str, str], init_method: str | None) -> str | None:
    """Return the host at which the ranks meet, or None if it is unknown or they meet through a file."""
    if init_method is None or init_method.startswith("env:"):
        return env.get("MASTER_ADDR")
    return urlsplit(init_method).hostname


def _script() -> str:
    path = Path(sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python")
    name = path.parent.name if path.name == "__main__.py" else path.stem
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name) or "python"


def _number(env: Mapping[str, str], *names: str, default: int) -> int:
    for name in names:
        if env.get(name):  # a variable from a label that a pod does not have is empty
            try:
                return int(env[name])
            except ValueError:
                raise UsageError(
                    f"{name}={env[name]!r} is not a number", "the launcher or a script has set it", "Unset it"
                ) from None
    return default
