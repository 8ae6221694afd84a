"""Who am I among the ranks, and how do we meet.

A launcher such as torchrun says so in the environment: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
MASTER_PORT. Without one there is a group of one, so that a single process runs the same code as a thousand. Each rank
takes the GPU of its local rank where there is one, and the processor else.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from trainer.errors import WorldError

MEETING_TIMEOUT_SECONDS = 300  # the slowest rank reads its data first; a rank that never starts is told by then


@dataclass(frozen=True)
class World:
    """This rank's place in the job."""

    rank: int  # global
    size: int
    local_rank: int = 0  # on its host
    local_size: int = 1  # ranks on its host

    @property
    def device(self) -> torch.device:
        """What this rank computes on."""
        return torch.device("cuda", self.local_rank) if torch.cuda.is_available() else torch.device("cpu")

    def autocast(self, wanted: bool) -> AbstractContextManager[object]:
        """Matrix products in bfloat16 within, where a GPU computes them."""
        return torch.autocast("cuda", torch.bfloat16) if wanted and self.device.type == "cuda" else nullcontext()

    def say(self, line: str) -> None:
        """Progress for people, on stdout: rank 0 speaks for all."""
        if self.rank == 0:
            print(line, flush=True)

    def warn(self, line: str) -> None:
        """Trouble that does not stop the run, on stderr: rank 0 speaks for all."""
        if self.rank == 0:
            print(f"trainer: {line}", file=sys.stderr, flush=True)


def world_from(environ: Mapping[str, str]) -> World:
    """Read this rank's place from the launcher's variables; raises WorldError when they make no sense."""
    rank, size = _number(environ, "RANK", 0), _number(environ, "WORLD_SIZE", 1)
    if not 0 <= rank < size:
        raise WorldError(
            f"RANK={rank} does not fit WORLD_SIZE={size}",
            "ranks count from 0 to WORLD_SIZE - 1",
            "Let torchrun set both, or unset both for a single process",
        )
    if size > 1:
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            if not environ.get(name):
                raise WorldError(
                    f"{name} is not set but WORLD_SIZE={size}",
                    "the ranks would not find each other",
                    "Start them with torchrun --nproc-per-node R -m trainer",
                )
        _number(environ, "MASTER_PORT", 0)
    local_rank, local_size = _number(environ, "LOCAL_RANK", rank), _number(environ, "LOCAL_WORLD_SIZE", size)
    if torch.cuda.is_available() and local_rank >= torch.cuda.device_count():
        raise WorldError(
            f"local rank {local_rank} has no GPU",
            f"this host has {torch.cuda.device_count()}",
            "Start fewer ranks, or hide all GPUs with CUDA_VISIBLE_DEVICES= to train on processors",
        )
    return World(rank, size, local_rank, local_size)


def join(world: World, timeout_seconds: float = MEETING_TIMEOUT_SECONDS) -> None:
    """Meet the other ranks; raises WorldError when they do not all come in time.

    The timeout is that of the meeting alone: collectives keep torch's own, for a rank that is stopped and
    goes on later is a matter for the monitor and costs no run.
    """
    on_gpu = {"device_id": world.device} if world.device.type == "cuda" else {}
    if on_gpu:
        torch.cuda.set_device(world.device)
    backend = "nccl" if on_gpu else "gloo"
    if world.size == 1:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, **on_gpu)
        return
    try:
        store, _, _ = next(dist.rendezvous("env://", timeout=timedelta(seconds=timeout_seconds)))
    except (dist.DistError, ValueError) as error:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise WorldError(
            f"rank {world.rank} did not meet the other {world.size - 1} at {address}",
            f"a rank was not started, the address is wrong or the port is taken ({_first_line(error)})",
            "Start all ranks with one torchrun and let it choose the port",
        ) from error
    # A launcher that starts the ranks again keeps its store, and the addresses of ranks that are gone in it.
    store = dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
    dist.init_process_group(backend, store=store, rank=world.rank, world_size=world.size, **on_gpu)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise WorldError(
            f"{name}={text!r} is not a number",
            "it was set by hand or by a broken launcher",
            "Let torchrun set it, or unset it for a single process",
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
