"""Train a pipeline of two stages, first with blocking send and recv, then with asynchronous ones.

Usage: `torchrun --nproc-per-node 2 pipeline.py OUT`.
"""

import sys

import torch
import torch.distributed as dist
from tally import Tally
from torch import nn

STEPS = 6
MICRO_BATCHES = 3
BATCH, WIDTH = 4, 32
BYTES = 4 * BATCH * WIDTH


def blocking(tensor: torch.Tensor, peer: int, *, send: bool) -> None:
    """Send the tensor to the peer or receive it, with blocking calls."""
    if send:
        dist.send(tensor, peer)
    else:
        dist.recv(tensor, peer)


def batched(tensor: torch.Tensor, peer: int, *, send: bool) -> None:
    """Send or receive in a batch of one operation."""
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend if send else dist.irecv, tensor, peer)]):
        work.wait()


def immediate(tensor: torch.Tensor, peer: int, *, send: bool) -> None:
    """Send or receive asynchronously, and wait for the end."""
    work = dist.isend(tensor, peer) if send else dist.irecv(tensor, peer)
    work.wait()


def main() -> None:
    dist.init_process_group("gloo")
    tally = Tally(dist.get_rank(), dist.get_world_size())
    first, peer = tally.rank == 0, 1 - tally.rank
    torch.manual_seed(tally.rank)
    stage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) if first else nn.Linear(WIDTH, 1)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)

    for step in range(STEPS):
        move = (blocking, batched, immediate)[step * 3 // STEPS]
        for _ in range(MICRO_BATCHES):
            if first:
                output = stage(torch.randn(BATCH, WIDTH))
                move(output.detach(), peer, send=True)
                gradient = torch.empty(BATCH, WIDTH)
                move(gradient, peer, send=False)
                output.backward(gradient)
            else:
                received = torch.empty(BATCH, WIDTH)
                move(received, peer, send=False)
                received.requires_grad_()
                loss = stage(received).square().mean()
                loss.backward()
                move(received.grad, peer, send=True)
            tally.op("send", BYTES, 0)
            tally.op("recv", 0, BYTES)
        optimizer.step()
        optimizer.zero_grad()
        tally.steps += 1
        if not first:
            print(f"step {tally.steps} loss {loss.item():.4f}", flush=True)

    dist.destroy_process_group()
    tally.write(sys.argv[1])


if __name__ == "__main__":
    main()
