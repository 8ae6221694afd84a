"""Reads job, attempt and rank of this process from the variables that its launcher set.

Supported launchers are torchrun (and others that set RANK, WORLD_SIZE and LOCAL_RANK), the mpirun of Open MPI and
MPICH, and Slurm's srun, in this order. mpirun comes before srun because it may start its ranks below a task of srun,
and then the variables of srun do not describe them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from multiprocessing import parent_process
from pathlib import Path
from urllib.parse import urlsplit

from zmon.box.identity import Identity
from zmon.errors import UsageError
from zmon.probe.launch_id import RANK, find_launcher, launch_id_of, program, script_name, start_ticks
from zmon.process import listed_children
from zmon.schema.names import JOB_ID, LAUNCH_ID_LETTERS, MAX_JOB_ID_LETTERS

# SLURM_NTASKS also has a value in a batch script and in the shell of salloc, which are not tasks of srun.
WORLD_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
LOCAL_WORLD_SIZE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
WATCH = "ZMON_WATCH"  # set by `zmon watch` for its command: the number of the watch
_SPAWNED = b"--multiprocessing-fork"  # in the command of each process that multiprocessing.spawn starts
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class LaunchEnvironment:
    """Facts about the launch of this process, with the names that they have in the identity of its box."""

    job_id: str
    launch_id: str  # the same for all ranks of a launch and for its restarts, and of no other launch; "": unknown
    program: str  # what the job runs: the script, and hashes of its path and of its arguments
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

    def is_restart_of(self, other: Identity) -> bool:
        """Return True if the same launcher started the other rank, in another attempt."""
        is_same_launcher = (other.launcher_pid, other.launcher_start) == (self.launcher_pid, self.launcher_start)
        return is_same_launcher and other.attempt != self.attempt


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
    local_world_size = _local_world_size(env, world_size, world_size == env_world_size, init_method)
    local_rank = rank % local_world_size if local_world_size else rank
    if (rank, world_size) == (env_rank, env_world_size):
        local_rank = _number(env, *LOCAL_RANK, default=local_rank)
    has_many_nodes = world_size != local_world_size and not (init_method or "").startswith("file:")  # file: one node
    max_restarts = _number(env, "TORCHELASTIC_MAX_RESTARTS", default=-1)
    restarts = _number(env, "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT", default=0)
    launcher = find_launcher(env, rank) if env_world_size == world_size else os.getppid()
    launch_id = launch_id_of(env, has_many_nodes, launcher, world_size, init_method)
    return LaunchEnvironment(
        job_id=_job_id(env, job_id, has_many_nodes, launch_id),
        launch_id=launch_id,
        program=program(),
        attempt=_number(env, "ZMON_ATTEMPT", default=restarts),
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        local_world_size=local_world_size,
        restart_count=restarts,
        max_restarts=max_restarts if max_restarts >= 0 else None,
        launcher_pid=launcher,
        launcher_start=start_ticks(launcher),
        watch=int(watch) if (watch := env.get(WATCH, "")).isdecimal() else 0,
    )


def _local_world_size(env: Mapping[str, str], world_size: int, matches_env: bool, init_method: str | None) -> int:
    """Return the number of ranks on this host; 0: unknown. `matches_env`: the environment describes this launch."""
    is_local = world_size == 1 or _is_loopback(_rendezvous_host(env, init_method)) or _all_spawned_here(world_size)
    names = LOCAL_WORLD_SIZE if matches_env else ()
    if number := _number(env, *names, default=world_size if is_local else 0):
        return number
    # Slurm by default spreads tasks evenly over nodes. A launch may also have a step of its own on each node.
    is_one_step = _number(env, "SLURM_STEP_NUM_TASKS", default=0) == world_size
    of_step = ("SLURM_STEP_NUM_NODES",) if is_one_step else ()
    num_nodes = _number(env, *of_step, "SLURM_JOB_NUM_NODES", default=0)
    return world_size // num_nodes if num_nodes else 0


def check_job_id(job_id: str) -> str:
    """Return the job id; raises UsageError if it is not valid."""
    if not JOB_ID.fullmatch(job_id):
        raise UsageError(
            f"the job id {job_id!r} is not usable",
            f"a job id has at most {MAX_JOB_ID_LETTERS} letters, digits, dots, dashes and underscores",
            "Choose another one with --job-id or ZMON_JOB_ID",
        )
    return job_id


def _job_id(env: Mapping[str, str], explicit: str | None, has_many_nodes: bool, launch_id: str) -> str:
    slurm, torchrun = env.get("SLURM_JOB_ID"), env.get("TORCHELASTIC_RUN_ID", "none")
    if job_id := explicit or env.get("ZMON_JOB_ID") or (slurm and f"slurm-{slurm}"):
        return check_job_id(job_id)
    # The random id that torchrun --standalone makes tells people nothing; only several nodes need it, to agree on one.
    if torchrun != "none" and (has_many_nodes or not _UUID.fullmatch(torchrun)):
        return check_job_id(torchrun)
    if has_many_nodes:
        raise UsageError(
            "this job has no id",
            "it runs on several nodes, which cannot agree on an id by themselves",
            "Set ZMON_JOB_ID or torchrun --rdzv-id; the job continues unwatched",
        )
    return check_job_id(f"{script_name()[:47]}-{launch_id[:LAUNCH_ID_LETTERS]}")


def _rendezvous_host(env: Mapping[str, str], init_method: str | None) -> str | None:
    """Return the host at which the ranks meet, or None if it is unknown or they meet through a file."""
    if init_method is None or init_method.startswith("env:"):
        return env.get("MASTER_ADDR")
    return urlsplit(init_method).hostname


def _is_loopback(host: str | None) -> bool:
    """Return True for an address that only processes of this host can reach.

    The address of an interface does not suffice: the first host of a job on several nodes has it too.
    """
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


def _all_spawned_here(world_size: int) -> bool:
    """Return True if the parent of this process has spawned all ranks, as torch.multiprocessing.spawn does on one node.

    Call it once the ranks have joined, so that all of them live.
    """
    if parent_process() is None:
        return False
    command_lines = (Path(f"/proc/{child}/cmdline") for child in listed_children(Path(f"/proc/{os.getppid()}")))
    return sum(_SPAWNED in _bytes_of(file).split(b"\0") for file in command_lines) >= world_size


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # the process has ended, or is another user's
        return b""


def _number(env: Mapping[str, str], *names: str, default: int) -> int:
    """Return the number in the first of these variables that is set. Raises UsageError if it is not a number."""
    for name in names:
        if env.get(name):  # a variable from a label that a pod does not have is empty
            try:
                return int(env[name])
            except ValueError:
                raise UsageError(
                    f"{name}={env[name]!r} is not a number", "the launcher or a script has set it", "Unset it"
                ) from None
    return default
