"""Time collectives on the ranks of a job; rank 0 writes the file.

Started as `torchrun … -m zmon.offline.comm_bench.measure FILE LARGEST`.
NCCL where each rank has a GPU of its own, else gloo: the ranks agree on it. A size is repeated for a fifth of a second.
Of several groups at once the largest one is told, as its slowest rank saw it.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

from zmon.offline.comm_bench.curve import HOST, NET, Measured, Timed
from zmon.offline.comm_bench.file import write

SMALLEST, FACTOR = 1 << 10, 4
WARM, LEAST, SECONDS = 3, 5, 0.2  # repeats, and for how long they go on
OPS = ("all_to_all", "all_reduce")
_ELEMENT = 4  # bytes of a float32


def main(out: str, largest: str) -> None:
    """Measure on all ranks."""
    dist.init_process_group("gloo")
    device = _device()
    backend = "nccl" if device.type == "cuda" else "gloo"
    here, between, per_host = _groups(backend)
    timed = [t for op in OPS for t in _timed(op, HOST, here, device, int(largest))]
    timed += [t for op in OPS for t in _timed(op, NET, between, device, int(largest))]
    if dist.get_rank() == 0:
        write(Path(out), Measured(backend, dist.get_world_size(), per_host, timed), time.time())
    dist.barrier()
    dist.destroy_process_group()


def _device() -> torch.device:
    """The GPU of this rank where each rank has one of its own; else the processor, for all of them."""
    mine, devices = None, torch.cuda.device_count()
    if devices:
        index = int(os.environ.get("LOCAL_RANK", "0")) % devices  # a rank that sees one alone has it as number 0
        mine = _host(), str(torch.cuda.get_device_properties(index).uuid)
    told: list[tuple[str, str] | None] = [None] * dist.get_world_size()
    dist.all_gather_object(told, mine)
    if None in told or len(set(told)) < len(told):
        return torch.device("cpu")
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _host() -> str:
    return os.environ.get("ZMON_HOST") or socket.gethostname()


def _groups(backend: str) -> tuple[dist.ProcessGroup | None, dist.ProcessGroup | None, int]:
    """The ranks of this host; one of each host; how many share one. None: a group of this rank alone."""
    hosts: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(hosts, _host())
    by_host = {host: [rank for rank, at in enumerate(hosts) if at == host] for host in dict.fromkeys(hosts)}
    mine = dist.get_rank()
    found: dict[str, dist.ProcessGroup | None] = {HOST: None, NET: None}
    per_host = max(map(len, by_host.values()))
    columns = [[ranks[n] for ranks in by_host.values() if n < len(ranks)] for n in range(per_host)]
    for kind, groups in ((HOST, list(by_host.values())), (NET, columns)):
        for ranks in groups:
            group = dist.new_group(ranks, backend=backend)  # every rank makes every group
            if mine in ranks and len(ranks) > 1:
                found[kind] = group
    return found[HOST], found[NET], per_host


def _timed(op: str, kind: str, group: dist.ProcessGroup | None, device: torch.device, largest: int) -> Iterator[Timed]:
    """Every size; all groups of that kind at once, as in a step. Nothing where there is none."""
    size = dist.get_world_size(group) if group is not None else 1
    num_bytes = SMALLEST
    while num_bytes <= largest:
        mine: tuple[int, int, float] | None = None
        if group is not None:
            elements = -(-num_bytes // _ELEMENT // size) * size
            mine = size, elements * _ELEMENT, _repeated(_exchange(op, elements, device, group), device, group)
        told: list[tuple[int, int, float] | None] = [None] * dist.get_world_size()
        dist.all_gather_object(told, mine)
        groups = [one for one in told if one is not None]
        if groups:
            ranks, handed_in, seconds = max(groups)  # of the largest groups the slowest
            yield Timed(op, kind, ranks, handed_in, seconds)
        num_bytes *= FACTOR


def _exchange(op: str, elements: int, device: torch.device, group: dist.ProcessGroup) -> Callable[[], object]:
    given, taken = torch.ones(elements, device=device), torch.empty(elements, device=device)
    if op == "all_to_all":
        return lambda: dist.all_to_all_single(taken, given, group=group)
    return lambda: dist.all_reduce(given, group=group)


def _repeated(exchange: Callable[[], object], device: torch.device, group: dist.ProcessGroup) -> float:
    """The median of its repeats: as many on each rank of the group, as the slowest of them warmed up."""
    begun = time.perf_counter()
    for _ in range(WARM):
        exchange()
    _finish(device)
    warm = torch.tensor([(time.perf_counter() - begun) / WARM], device=device)
    dist.all_reduce(warm, dist.ReduceOp.MAX, group=group)
    taken = []
    for _ in range(max(LEAST, int(SECONDS / max(float(warm), 1e-6)))):
        begun = time.perf_counter()
        exchange()
        _finish(device)
        taken.append(time.perf_counter() - begun)
    return median(taken)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main(*sys.argv[1:])
