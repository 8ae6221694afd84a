"""Fail: rank 1 raises an exception for a bad batch at step 5.

Usage: `torchrun --nproc-per-node 2 raising.py`.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 10


def load(step: int) -> torch.Tensor:
    if dist.get_rank() == 1 and step == 5:
        raise ValueError(f"batch {step} has no samples")
    return torch.randn(8, 16)


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, STEPS + 1):
        x = load(step)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
