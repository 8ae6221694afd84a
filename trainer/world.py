"""The position of this rank in the job, and the creation of the process group.

A launcher such as torchrun sets the environment variables RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR
and MASTER_PORT. Without a launcher the process group has one rank, so a single process runs the same code as a
thousand. Each rank uses the GPU of its local rank if there is one, and the CPU otherwise.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from trainer.errors import WorldError

RENDEZVOUS_TIMEOUT_SECONDS = 300  # enough for the slowest rank, which reads its data before it arrives


@dataclass(frozen=True)
class World:
    """The position of this rank in the job."""

    rank: int  # global
    size: int
    local_rank: int = 0  # on its host
    local_size: int = 1  # ranks on its host

    @property
    def device(self) -> torch.device:
        """The device that this rank computes on."""
        return torch.device("cuda", self.local_rank) if torch.cuda.is_available() else torch.device("cpu")

    def say(self, line: str) -> None:
        """Print a line of progress on stdout, on rank 0 only."""
        if self.rank == 0:
            print(line, flush=True)

    def warn(self, line: str) -> None:
        """Print a warning on stderr, on rank 0 only; the run goes on."""
        if self.rank == 0:
            print(f"trainer: {line}", file=sys.stderr, flush=True)


def world_from(environ: Mapping[str, str]) -> World:
    """Read the position of the rank from the launcher's variables. Raises WorldError if they are inconsistent."""
    rank, size = _number(environ, "RANK", 0), _number(environ, "WORLD_SIZE", 1)
    if not 0 <= rank < size:
        next_step = "Let torchrun set both, or unset both for a single process"
        cause = "ranks count from 0 to WORLD_SIZE - 1"
        raise WorldError(f"RANK={rank} does not fit WORLD_SIZE={size}", cause, next_step)
    if size > 1:
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            if not environ.get(name):
                cause = "the ranks cannot connect to each other without it"
                next_step = "Start them with torchrun --nproc-per-node R -m trainer"
                raise WorldError(f"{name} is not set but WORLD_SIZE={size}", cause, next_step)
        _number(environ, "MASTER_PORT", 0)  # raises if it is none
    local_rank, local_size = _number(environ, "LOCAL_RANK", rank), _number(environ, "LOCAL_WORLD_SIZE", size)
    if torch.cuda.is_available() and local_rank >= torch.cuda.device_count():
        cause = f"this host has {torch.cuda.device_count()} GPUs"
        next_step = "Start fewer ranks, or hide all GPUs with CUDA_VISIBLE_DEVICES= to train on CPUs"
        raise WorldError(f"local rank {local_rank} has no GPU", cause, next_step)
    return World(rank, size, local_rank, local_size)


def join(world: World, timeout_seconds: float = RENDEZVOUS_TIMEOUT_SECONDS) -> None:
    """Create the process group. Raises WorldError if not all ranks arrive in time.

    The timeout applies to the rendezvous only. Collectives keep torch's own timeout: a rank that is stopped and resumes
    later is a matter for the monitor and must not end the run.
    """
    gpu = world.device if world.device.type == "cuda" else None
    backend = "nccl" if gpu else "gloo"
    if gpu:
        torch.cuda.set_device(gpu)
    if world.size == 1:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, device_id=gpu)
        return
    try:
        store, _, _ = next(dist.rendezvous("env://", timeout=timedelta(seconds=timeout_seconds)))
    except (dist.DistError, ValueError) as error:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise WorldError(
            f"rank {world.rank} of {world.size} could not connect to the other ranks at {address}",
            f"a rank was not started, the address is wrong or the port is taken ({' '.join(str(error).split())[:200]})",
            "Start all ranks with one torchrun and let it choose the port",
        ) from error
    # A launcher that restarts the ranks keeps its store, which still has the addresses of the previous ranks.
    store = dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
    dist.init_process_group(backend, store=store, rank=world.rank, world_size=world.size, device_id=gpu)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        next_step = "Let torchrun set it, or unset it for a single process"
        cause = "it was set by hand or by a broken launcher"
        raise WorldError(f"{name}={text!r} is not a number", cause, next_step) from None
