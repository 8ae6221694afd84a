"""Reads job, attempt, rank and labels of this process from the variables that its launcher set.

Supported launchers are torchrun (and others that set RANK, WORLD_SIZE and LOCAL_RANK), the mpirun of Open MPI and
MPICH, and Slurm's srun, in this order. mpirun comes before srun because it may start its ranks below a task of srun,
and then the variables of srun do not describe them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from multiprocessing import parent_process
from pathlib import Path
from urllib.parse import urlsplit

from zmon.box.identity import LABELS_BYTES, Identity
from zmon.errors import UsageError
from zmon.probe.complaints import complain
from zmon.process import process_stat
from zmon.schema.names import JOB_ID, LABEL_LIMITS, LAUNCH_ID_LETTERS, MAX_JOB_ID_LETTERS, bounded_labels

RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
WORLD_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
LOCAL_WORLD_SIZE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
WATCH = "ZMON_WATCH"  # set by `zmon watch` for its command: the number of the watch
_SPAWNED = b"--multiprocessing-fork"  # in the command of each process that multiprocessing.spawn starts
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAX_WRAPPERS = 16  # processes between a launcher and its rank, such as numactl or a shell


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

    def restarted(self, rank: Identity) -> bool:
        """Return True if the launcher of this rank has started another attempt of the job of that one."""
        launcher = (rank.launcher_pid, rank.launcher_start)
        return launcher == (self.launcher_pid, self.launcher_start) and rank.attempt != self.attempt


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
    is_local = world_size == 1 or _is_loopback(_rendezvous_host(env, init_method)) or _all_spawned_here(world_size)
    names: tuple[str, ...] = LOCAL_WORLD_SIZE if world_size == env_world_size else ()
    local_world_size = _number(env, *names, default=world_size if is_local else 0)
    if local_world_size == 0:  # Slurm by default spreads tasks evenly over nodes
        local_world_size = world_size // _number(env, "SLURM_JOB_NUM_NODES", default=world_size + 1)
    names = LOCAL_RANK if (rank, world_size) == (env_rank, env_world_size) else ()
    local_rank = _number(env, *names, default=rank % local_world_size if local_world_size else rank)
    many_nodes = world_size != local_world_size and not (init_method or "").startswith("file:")  # file: one node
    max_restarts = _number(env, "TORCHELASTIC_MAX_RESTARTS", default=-1)
    restarts = _number(env, "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT", default=0)
    launcher = _launcher(env, rank) if env_world_size == world_size else os.getppid()
    start_ticks = _start_ticks(launcher)
    launch_id = _launch_id(env, many_nodes, (launcher, start_ticks), world_size, init_method)
    return LaunchEnvironment(
        job_id=_job_id(env, job_id, many_nodes, launch_id),
        launch_id=launch_id,
        program=_program(),
        attempt=_number(env, "ZMON_ATTEMPT", default=restarts),
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        local_world_size=local_world_size,
        restart_count=restarts,
        max_restarts=max_restarts if max_restarts >= 0 else None,
        launcher_pid=launcher,
        launcher_start=start_ticks,
        watch=int(watch) if (watch := env.get(WATCH, "")).isdecimal() else 0,
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


def with_label(labels: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    """Return the labels with a label that zmon sets; without it if its value is empty or does not fit."""
    other_labels = {key: text for key, text in labels.items() if key != name}
    all_labels = {**other_labels, name: value}
    fits = bounded_labels(all_labels) == all_labels and len(json.dumps(all_labels)) < LABELS_BYTES
    return all_labels if value and fits else other_labels


def check_job_id(job_id: str) -> str:
    """Return the job id; raises UsageError if it is not valid."""
    if not JOB_ID.fullmatch(job_id):
        raise UsageError(
            f"the job id {job_id!r} is not usable",
            f"a job id has at most {MAX_JOB_ID_LETTERS} letters, digits, dots, dashes and underscores",
            "Choose another one with --job-id or ZMON_JOB_ID",
        )
    return job_id


def _job_id(env: Mapping[str, str], explicit: str | None, many_nodes: bool, launch_id: str) -> str:
    slurm = env.get("SLURM_JOB_ID")
    torchrun = env.get("TORCHELASTIC_RUN_ID", "none")
    is_random = not many_nodes and _UUID.fullmatch(torchrun)  # torchrun --standalone makes it; it tells people nothing
    if job_id := explicit or env.get("ZMON_JOB_ID") or (slurm and f"slurm-{slurm}"):
        return check_job_id(job_id)
    if torchrun != "none" and not is_random:
        return check_job_id(torchrun)
    if many_nodes:
        raise UsageError(
            "this job has no id",
            "it runs on several nodes, which cannot agree on an id by themselves",
            "Set ZMON_JOB_ID or torchrun --rdzv-id; the job continues unwatched",
        )
    return check_job_id(f"{_script()[:47]}-{launch_id[:LAUNCH_ID_LETTERS]}")


def _launcher(env: Mapping[str, str], rank: int) -> int:
    """Return the pid of the launcher: the nearest process above this one that does not have the number of this rank.

    Between them may be wrappers, such as numactl, a shell or a profiler, which differ from rank to rank.
    """
    parent = os.getppid()
    name = next((name for name in RANK if env.get(name)), None)
    if name is None or env[name] != str(rank):
        return _above_first_rank(env, parent)
    number, pid = f"{name}={rank}".encode(), parent
    for _ in range(_MAX_WRAPPERS):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # of another user, such as slurmstepd, which is no wrapper
            return pid
        stat = process_stat(pid)
        if number not in environment.split(b"\0"):
            return pid
        if stat is None or stat.parent == 0:  # the whole container has the number, as in a pod of a PyTorchJob
            break
        pid = stat.parent
    return parent


def _above_first_rank(env: Mapping[str, str], parent: int) -> int:
    """Return the parent of this process, or the parent of that if the first rank started this one, as in Lightning.

    Such a rank runs its own command again for each further rank of its host, and gives it LOCAL_RANK, which it does not
    have itself. A fork has the same command too, but not a variable that its parent had not.
    """
    number = f"LOCAL_RANK={env.get('LOCAL_RANK')}".encode()
    try:
        if number not in Path("/proc/self/environ").read_bytes().split(b"\0"):
            return parent
        if b"\0LOCAL_RANK=" in b"\0" + Path(f"/proc/{parent}/environ").read_bytes():
            return parent
        command = os.fsdecode(Path(f"/proc/{parent}/cmdline").read_bytes()).split("\0")[:-1]
    except OSError:  # of another user
        return parent
    first, arguments = len(command) - len(sys.argv), sys.argv[1:]
    if first < 1 or command[first + 1 :] != arguments or _program_name(command[first]) != _program_name(sys.argv[0]):
        return parent
    stat = process_stat(parent)
    return stat.parent if stat else parent


def _program_name(word: str) -> str:
    """Return the name by which a command and its script, or the module of `python -m`, agree."""
    path = Path(word)
    if path.name == "__main__.py":
        return path.parent.name
    return path.stem if path.suffix == ".py" else path.name.rpartition(".")[2]


def _launch_id(
    env: Mapping[str, str], many_nodes: bool, launcher: tuple[int, int], world_size: int, init_method: str | None
) -> str:
    """Return what all ranks of a launch share and no other launch has, as hexadecimal digits; "" if it is unknown.

    On one node this is the launcher, beside the place at which the ranks meet: one shell or one raylet may start
    several launches. torchrun stays while it restarts ranks, which may meet elsewhere each time. A single rank is its
    own launcher, except below torchrun. Several nodes share only the place, or torchrun's id.
    """
    elastic = env.get("TORCHELASTIC_RUN_ID", "")
    step = f"{env.get('SLURM_JOB_ID', '')}.{env['SLURM_STEP_ID']}" if env.get("SLURM_STEP_ID") else ""
    if init_method is None or init_method.startswith("env:"):
        place = f"{env.get('MASTER_ADDR', '')}:{env['MASTER_PORT']}" if env.get("MASTER_PORT") else ""
    else:
        place = init_method
    if many_nodes:
        known = (elastic, place) if elastic else (step, place, str(world_size))
        return _digest("nodes", *known) if place or step or elastic not in ("", "none") else ""
    if world_size == 1 and not elastic:
        launcher = os.getpid(), _start_ticks(os.getpid())
    meeting = (elastic,) if elastic else (place, step, str(world_size))
    return _digest(os.uname().nodename, boot_id(), *map(str, launcher), *meeting)


def _digest(*words: str) -> str:
    return sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def boot_id() -> str:
    """Return a text that each start of this machine has another one of; "" if it is unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""


def _program() -> str:
    path = str(Path(sys.argv[0]).absolute()) if sys.argv else ""
    return f"{_script()[:32]}-{_digest(path)[:6]}-{_digest(*sys.argv[1:])[:6]}"


def _start_ticks(pid: int) -> int:
    stat = process_stat(pid)
    return stat.start_ticks if stat else 0


def _rendezvous_host(env: Mapping[str, str], init_method: str | None) -> str | None:
    """Return the host at which the ranks meet, or None if it is unknown or they meet through a file."""
    if init_method is None or init_method.startswith("env:"):
        return env.get("MASTER_ADDR")
    return urlsplit(init_method).hostname


def _is_loopback(host: str | None) -> bool:
    """Return True for an address that only processes of this host can reach.

    An address of an interface would not do: the first host of a job on several nodes has that one too.
    """
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


def _all_spawned_here(world_size: int, proc: Path = Path("/proc")) -> bool:
    """Return True if the parent of this process has spawned all ranks, as torch.multiprocessing.spawn does on one node.

    Call it once the ranks have joined, so that all of them live.
    """
    if parent_process() is None:
        return False
    children: list[str] = []
    for file in proc.glob(f"{os.getppid()}/task/*/children"):
        children += _bytes_of(file).decode().split()
    return sum(_SPAWNED in _bytes_of(proc / child / "cmdline").split(b"\0") for child in children) >= world_size


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # the process has ended, or is another user's
        return b""


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
