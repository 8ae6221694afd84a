"""Train with a DataLoader with two workers, on one rank or on several with DDP.

Usage: `torchrun --nproc-per-node 2 dataloader_workers.py OUT [--context fork|spawn]`.
"""

import argparse

import torch
import torch.distributed as dist
from tally import Tally, ddp_construction, ddp_rebuild, size
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Numbers(Dataset):
    """Numbers that the worker generates on access."""

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(16, generator=torch.Generator().manual_seed(index))
        return x, x.sum(0, keepdim=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--context", choices=["fork", "spawn"], default="fork")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    tally = Tally(dist.get_rank(), dist.get_world_size())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    net: nn.Module = model
    if tally.world_size > 1:
        ddp_construction(tally, model)
        net = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    data = Numbers()
    loader = DataLoader(
        data, batch_size=8, sampler=DistributedSampler(data), num_workers=2, multiprocessing_context=args.context
    )

    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        tally.steps += 1
        if tally.world_size > 1:
            tally.op("all_reduce", size(*model.parameters()), size(*model.parameters()))
            if tally.steps == 2:
                ddp_rebuild(tally, model)
        if tally.rank == 0:
            print(f"step {tally.steps} loss {loss.item():.4f}", flush=True)

    dist.destroy_process_group()
    tally.write(args.out)


if __name__ == "__main__":
    main()
