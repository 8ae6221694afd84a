"""Train with ranks of torch.multiprocessing.spawn, and call object collectives.

Usage: `python spawned.py OUT`.
"""

import os
import pickle
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tally import Tally, size
from torch import nn

STEPS = 5
WORLD_SIZE = 2


def pickled(thing: object) -> int:
    """Return the size of an object as torch pickles it (distributed_c10d._object_to_tensor), in bytes."""
    return len(pickle.dumps(thing))


def objects(tally: Tally) -> None:
    """Call object collectives: they send sizes first, then pickles, which all_gather_object pads to the longest."""
    things = ["short", {"rank": 1, "of": "more words"}]
    gathered: list = [None] * WORLD_SIZE
    dist.all_gather_object(gathered, things[tally.rank])
    assert gathered == things
    tally.op("all_gather", 8, 8 * WORLD_SIZE)
    longest = max(map(pickled, things))
    tally.op("all_gather", longest, longest * WORLD_SIZE)

    config = [{"lr": 0.1}, "adam"]
    dist.broadcast_object_list(config if tally.rank == 0 else [None, None], src=0)
    tally.broadcast(8 * len(config))
    tally.broadcast(sum(map(pickled, config)))


def train(rank: int, port: int, out: str) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", str(port)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD_SIZE)
    tally = Tally(rank, WORLD_SIZE)
    objects(tally)

    torch.manual_seed(0)
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            parameter.grad /= WORLD_SIZE
            tally.op("all_reduce", size(parameter), size(parameter))
        optimizer.step()
        tally.steps += 1
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.destroy_process_group()
    tally.write(out)


def main() -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    mp.spawn(train, args=(port, sys.argv[1]), nprocs=WORLD_SIZE)


if __name__ == "__main__":
    main()
