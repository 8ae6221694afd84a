"""Train with DistributedDataParallel and gradient accumulation: four micro-batches a step, one reduction.

Usage: `torchrun --nproc-per-node 2 ddp_accumulate.py OUT [--bucket-cap-mb 0.05]`.
"""

import argparse
import contextlib

import torch
import torch.distributed as dist
from tally import Tally, ddp_construction, ddp_rebuild, size
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATE = 4
EPOCHS = 2


def num_buckets(model: nn.Module, cap_mb: float) -> int:
    """Return the number of DDP's buckets, which the gradients fill up to the cap, last parameters first.

    The cap of the first bucket is at most 1 MiB, and no model of this job fills a bucket of 1 MiB.
    """
    cap_bytes = min(cap_mb, 1) * 2**20
    filled_bytes = 0
    num_full = 0
    for parameter in reversed(list(model.parameters())):
        filled_bytes += size(parameter)
        if filled_bytes >= cap_bytes:
            filled_bytes = 0
            num_full += 1
    return num_full + (filled_bytes > 0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--bucket-cap-mb", type=float, default=25)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    tally = Tally(dist.get_rank(), dist.get_world_size())
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(32, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
        nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1),
    )  # fmt: skip
    ddp_construction(tally, model)
    ddp = DistributedDataParallel(model, bucket_cap_mb=args.bucket_cap_mb)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)

    data = TensorDataset(torch.randn(256, 32), torch.randn(256, 1))
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=8, sampler=sampler)

    buckets = 1  # until DDP knows the order of the gradients
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for number, (x, y) in enumerate(loader):
            last = (number + 1) % ACCUMULATE == 0
            with contextlib.nullcontext() if last else ddp.no_sync():
                loss = nn.functional.mse_loss(ddp(x), y) / ACCUMULATE
                loss.backward()
            if not last:
                continue
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()

            tally.steps += 1
            if tally.steps == 2:  # the forward pass after the first synchronised backward pass rebuilds them
                buckets = num_buckets(model, args.bucket_cap_mb)
                ddp_rebuild(tally, model, buckets)
            tally.op("all_reduce", size(*model.parameters()), size(*model.parameters()), times=buckets)
            for dtype in (torch.float32, torch.int64):  # of BatchNorm, after a synchronised backward
                tally.broadcast(size(*(buffer for buffer in model.buffers() if buffer.dtype == dtype)))
        if tally.rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} buckets {buckets}", flush=True)

    dist.destroy_process_group()
    tally.write(args.out)


if __name__ == "__main__":
    main()
