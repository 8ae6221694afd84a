"""Train with DistributedDataParallel; every rank evaluates in the middle, and rank 0 saves.

Usage: `torchrun --nproc-per-node 2 ddp.py OUT [--compile]`.
"""

import sys

import torch
import torch.distributed as dist
from counting import Count
from rows import MIDDLE, evaluate, loader, network
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    count = Count(sys.argv[1])
    ddp = DistributedDataParallel(network())
    model = torch.compile(ddp) if "--compile" in sys.argv else ddp
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    for x, y in loader():
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        count.steps += 1
        if count.steps == MIDDLE:
            evaluate(model)
            count.evaluations += 1
            if dist.get_rank() == 0:
                torch.save(
                    {"model": ddp.module.state_dict(), "optimizer": optimizer.state_dict()}, count.out / "checkpoint.pt"
                )
                count.checkpoints += 1
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
