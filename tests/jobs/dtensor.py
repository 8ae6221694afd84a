"""Train with tensor parallelism by DTensor, and call functional collectives directly.

Usage: `torchrun --nproc-per-node 2 dtensor.py OUT`.
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from tally import Tally, size
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

STEPS = 4
BATCH, WIDTH = 8, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


def main() -> None:
    dist.init_process_group("gloo")
    tally = Tally(dist.get_rank(), dist.get_world_size())
    ranks, root = tally.world_size, tally.rank == 0
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block())
    for block in model:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        for whole in (4 * WIDTH * WIDTH * 4, 4 * WIDTH * 4, 4 * WIDTH * WIDTH * 4):  # all but down's bias are sharded
            tally.op("scatter", whole * root, whole // ranks)  # rank 0 has the values
        tally.broadcast(WIDTH * 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for _ in range(STEPS):
        loss = model(torch.randn(BATCH, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tally.steps += 1
        # each block's partial output, and the gradient of the second block's input (the first block's is not needed)
        tally.op("all_reduce", 3 * 4 * BATCH * WIDTH, 3 * 4 * BATCH * WIDTH, times=3)
        if root:
            print(f"step {tally.steps} loss {loss.item():.4f}", flush=True)

    rows = distribute_tensor(torch.arange(12.0).reshape(6, 2), mesh, [Shard(0)])
    tally.op("scatter", 48 * root, 48 // ranks)
    rows.redistribute(placements=[Replicate()])
    tally.op("all_gather", 48 // ranks, 48)
    partial = DTensor.from_local(torch.ones(6, 2), mesh, [Partial()])
    partial.redistribute(placements=[Replicate()])
    tally.op("all_reduce", 48, 48)
    partial.redistribute(placements=[Shard(0)])
    tally.op("reduce_scatter", 48, 48 // ranks)

    group = dist.group.WORLD
    ones = torch.ones(12)
    results = [
        funcol.all_reduce(ones, "sum", group),
        funcol.all_gather_tensor(ones, 0, group),
        funcol.reduce_scatter_tensor(ones, "sum", 0, group),
        funcol.all_to_all_single(ones, None, None, group),
        funcol.broadcast(ones, 0, group),
        *funcol.all_reduce_coalesced([ones, ones[:5]], "sum", group),
    ]
    for result in results:
        funcol.wait_tensor(result)
    tally.op("all_reduce", size(ones), size(ones))
    tally.op("all_gather", size(ones), size(ones) * ranks)
    tally.op("reduce_scatter", size(ones), size(ones) // ranks)
    tally.op("all_to_all", size(ones), size(ones))
    tally.broadcast(size(ones))
    tally.op("all_reduce", size(ones, ones[:5]), size(ones, ones[:5]))  # one collective, two tensors

    dist.destroy_process_group()
    tally.write(sys.argv[1])


if __name__ == "__main__":
    main()
