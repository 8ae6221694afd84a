"""Recognizes the launch of this process: its launcher, what it runs, and an id that all ranks of the launch share."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from zmon.process import process_stat

RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_MAX_WRAPPERS = 16  # processes between a launcher and its rank, such as numactl or a shell


def find_launcher(env: Mapping[str, str], rank: int) -> int:
    """Return the pid of the launcher: the nearest process above this one that does not have the number of this rank.

    Between them may be wrappers, such as numactl, a shell or a profiler, which differ from rank to rank.
    """
    parent = os.getppid()
    name = next((name for name in RANK if env.get(name)), None)
    if name is None or env[name] != str(rank):
        return _above_first_rank(env, parent)
    variable, pid = f"{name}={rank}".encode(), parent
    for _ in range(_MAX_WRAPPERS):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # of another user, such as slurmstepd, which is not a wrapper
            return pid
        stat = process_stat(pid)
        if variable not in environment.split(b"\0"):
            return pid
        if stat is None or stat.parent == 0:  # the whole container has the number, as in a pod of a PyTorchJob
            break
        pid = stat.parent
    return parent


def _above_first_rank(env: Mapping[str, str], parent: int) -> int:
    """Return the parent of this process; the parent's parent if the first rank started this one, as in Lightning.

    There the first rank runs its own command again for each further rank of its host. It gives that process LOCAL_RANK,
    which it does not have itself. A fork has the same command too, but no variable that its parent lacks.
    """
    variable = f"LOCAL_RANK={env.get('LOCAL_RANK')}".encode()
    try:
        if variable not in Path("/proc/self/environ").read_bytes().split(b"\0"):
            return parent
        if b"\0LOCAL_RANK=" in b"\0" + Path(f"/proc/{parent}/environ").read_bytes():
            return parent
        command = os.fsdecode(Path(f"/proc/{parent}/cmdline").read_bytes()).split("\0")[:-1]
    except OSError:  # of another user
        return parent
    script = len(command) - len(sys.argv)  # the index of the script in the parent's command, after the interpreter
    has_same_arguments = script >= 1 and command[script + 1 :] == sys.argv[1:]
    if not has_same_arguments or _command_name(command[script]) != _command_name(sys.argv[0]):
        return parent
    stat = process_stat(parent)
    return stat.parent if stat else parent


def _command_name(word: str) -> str:
    """Return a name that is the same for a command, its script, and the module of `python -m`."""
    path = Path(word)
    if path.name == "__main__.py":
        return path.parent.name
    return path.stem if path.suffix == ".py" else path.name.rpartition(".")[2]


def start_ticks(pid: int) -> int:
    """Return the start of a process in clock ticks after boot; 0 if it is gone."""
    stat = process_stat(pid)
    return stat.start_ticks if stat else 0


def launch_id_of(
    env: Mapping[str, str], has_many_nodes: bool, launcher_pid: int, world_size: int, init_method: str | None
) -> str:
    """Return what all ranks of a launch share and no other launch has, as hexadecimal digits; "" if it is unknown.

    On one node the id is made of the launcher and of the place at which the ranks meet, because one shell or one raylet
    may start several launches. torchrun stays while it restarts ranks, and its ranks may meet elsewhere each time, so
    its id replaces the place. A single rank is its own launcher, except below torchrun. Several nodes share only the
    place, or torchrun's id.
    """
    elastic = env.get("TORCHELASTIC_RUN_ID", "")
    step = f"{env.get('SLURM_JOB_ID', '')}.{env['SLURM_STEP_ID']}" if env.get("SLURM_STEP_ID") else ""
    if init_method is None or init_method.startswith("env:"):
        place = f"{env.get('MASTER_ADDR', '')}:{env['MASTER_PORT']}" if env.get("MASTER_PORT") else ""
    else:
        place = init_method
    if has_many_nodes:
        shared = (elastic, place) if elastic else (step, place, str(world_size))
        return _digest("nodes", *shared) if place or step or elastic not in ("", "none") else ""
    pid = os.getpid() if world_size == 1 and not elastic else launcher_pid
    meeting = (elastic,) if elastic else (place, step, str(world_size))
    return _digest(os.uname().nodename, boot_id(), str(pid), str(start_ticks(pid)), *meeting)


def _digest(*words: str) -> str:
    return sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def boot_id() -> str:
    """Return the kernel's random id of this start of the machine; "" if it is unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""


def program() -> str:
    """Return the script of this process, with hashes of its path and of its arguments."""
    path = str(Path(sys.argv[0]).absolute()) if sys.argv else ""
    return f"{script_name()[:32]}-{_digest(path)[:6]}-{_digest(*sys.argv[1:])[:6]}"


def script_name() -> str:
    """Return the name of the script or module of this process, in the letters of a job id."""
    path = Path(sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python")
    name = path.parent.name if path.name == "__main__.py" else path.stem
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name) or "python"
