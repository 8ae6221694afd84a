"""Times collectives on the ranks of a job: `torchrun … -m lab.comm_bench FILE LARGEST`. Rank 0 writes the file.

The benchmark uses NCCL if each rank has its own GPU, otherwise gloo on all ranks. Each size is repeated for a fifth of
a second, and at least five times. All groups run at once. The result is the duration in the largest group, on its
slowest rank.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

import msgspec
import torch
import torch.distributed as dist

from zmon.offline.measured_files import write_links
from zmon.scaling.bandwidth import HOST, NET, MeasuredLinks, TimedMessage

SMALLEST = 1 << 10  # bytes of the smallest message
FACTOR = 4  # from one size to the next
WARM_UP = 3  # repeats before timing
MIN_REPEATS = 5
SECONDS = 0.2  # of each size, unless MIN_REPEATS take longer
OPS = ("all_to_all", "all_reduce")
_ELEMENT = 4  # bytes of a float32
T = TypeVar("T")


class Gpu(NamedTuple):
    """The GPU of a rank."""

    host: str
    uuid: str


class Result(NamedTuple):
    """The duration of one message in one group, as one of its ranks measured it. Results sort by these fields."""

    ranks: int
    num_bytes: int
    seconds: float


def main(out: str, largest: str) -> None:
    """Run the benchmark on this rank; `largest` is the largest message in bytes."""
    dist.init_process_group("gloo")
    device = _device()
    backend = "nccl" if device.type == "cuda" else "gloo"
    within, between, per_host = _groups(backend)
    timed: list[TimedMessage] = []
    for kind, group in ((HOST, within), (NET, between)):
        for op in OPS:
            timed += _timed(op, kind, group, device, int(largest))
    if dist.get_rank() == 0:
        write_links(Path(out), MeasuredLinks(backend, dist.get_world_size(), per_host, timed), time.time())
    dist.barrier()
    dist.destroy_process_group()


def _device() -> torch.device:
    """Return the GPU of this rank, or the CPU unless every rank has a GPU of its own."""
    gpu: Gpu | None = None
    devices = torch.cuda.device_count()
    if devices:
        index = int(os.environ.get("LOCAL_RANK", "0")) % devices  # if a rank sees only one GPU, the GPU's number is 0
        gpu = Gpu(_host(), str(torch.cuda.get_device_properties(index).uuid))
    gpus = _gather(gpu, Gpu | None)
    if gpu is None or None in gpus or len(set(gpus)) < len(gpus):
        return torch.device("cpu")
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _host() -> str:
    return os.environ.get("ZMON_HOST") or socket.gethostname()


def _groups(backend: str) -> tuple[dist.ProcessGroup | None, dist.ProcessGroup | None, int]:
    """Return the group of this host, the group with one rank per host, and the largest number of ranks on a host.

    A group is None if it has only this rank.
    """
    hosts = _gather(_host(), str)
    by_host = {
        host: [rank for rank, rank_host in enumerate(hosts) if rank_host == host] for host in dict.fromkeys(hosts)
    }
    own_rank = dist.get_rank()
    own_groups: dict[str, dist.ProcessGroup | None] = {HOST: None, NET: None}
    per_host = max(map(len, by_host.values()))
    columns = [[ranks[n] for ranks in by_host.values() if n < len(ranks)] for n in range(per_host)]
    for kind, groups in ((HOST, list(by_host.values())), (NET, columns)):
        for ranks in groups:
            group = dist.new_group(ranks, backend=backend)  # every rank must create every group
            if own_rank in ranks and len(ranks) > 1:
                own_groups[kind] = group
    return own_groups[HOST], own_groups[NET], per_host


def _timed(
    op: str, kind: str, group: dist.ProcessGroup | None, device: torch.device, largest: int
) -> Iterator[TimedMessage]:
    """Yield the duration of every size, with all groups of this kind at once, as in a step.

    Yields nothing if there is no group of this kind.
    """
    size = dist.get_world_size(group) if group is not None else 1
    num_bytes = SMALLEST
    while num_bytes <= largest:
        own_result: Result | None = None
        if group is not None:
            elements = -(-num_bytes // _ELEMENT // size) * size
            seconds = _median_seconds(_collective(op, elements, device, group), device, group)
            own_result = Result(size, elements * _ELEMENT, seconds)
        measured = [result for result in _gather(own_result, Result | None) if result is not None]
        if measured:
            slowest = max(measured)  # in the largest group
            yield TimedMessage(op, kind, slowest.ranks, slowest.num_bytes, slowest.seconds)
        num_bytes *= FACTOR


def _collective(op: str, elements: int, device: torch.device, group: dist.ProcessGroup) -> Callable[[], object]:
    send = torch.ones(elements, device=device)
    receive = torch.empty(elements, device=device)
    if op == "all_to_all":
        return lambda: dist.all_to_all_single(receive, send, group=group)
    return lambda: dist.all_reduce(send, group=group)


def _median_seconds(collective: Callable[[], object], device: torch.device, group: dist.ProcessGroup) -> float:
    """Return the median duration of the repeats.

    Every rank of the group makes the same number of repeats: as many as its slowest rank can in `SECONDS`.
    """
    started_at = time.perf_counter()
    for _ in range(WARM_UP):
        collective()
    _finish(device)
    warm_up_mean = torch.tensor([(time.perf_counter() - started_at) / WARM_UP], device=device)
    dist.all_reduce(warm_up_mean, dist.ReduceOp.MAX, group=group)
    durations = []
    for _ in range(max(MIN_REPEATS, int(SECONDS / max(float(warm_up_mean), 1e-6)))):
        started_at = time.perf_counter()
        collective()
        _finish(device)
        durations.append(time.perf_counter() - started_at)
    return median(durations)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _gather(value: T, kind: Any) -> list[T]:
    """Return the value of each rank, by rank; `kind` is its type. The ranks use their default group (gloo).

    The values travel as JSON and not as a pickle, which could run code of a peer.
    """
    body = msgspec.json.encode(value)
    size = torch.tensor([len(body)])
    sizes = [torch.zeros_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    longest = int(max(sizes))
    padded = torch.tensor(list(body.ljust(longest)), dtype=torch.uint8)
    bodies = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(bodies, padded)
    return [msgspec.json.decode(bytes(body.tolist()), type=kind) for body in bodies]


if __name__ == "__main__":
    main(*sys.argv[1:])
