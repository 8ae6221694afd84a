"""Train with tensor parallelism by DTensor, and call functional collectives directly.

The job counts its collectives by hand (tally.py). A test compares them with what zmon counted.

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
HIDDEN = 4 * WIDTH
FLOAT_BYTES = 4
ROWS_BYTES = 12 * FLOAT_BYTES


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


def main() -> None:
    dist.init_process_group("gloo")
    tally = Tally(dist.get_rank(), dist.get_world_size())
    ranks, is_root = tally.world_size, tally.rank == 0
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block())
    for block in model:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        weight, up_bias, down_bias = (number * FLOAT_BYTES for number in (HIDDEN * WIDTH, HIDDEN, WIDTH))
        for num_bytes in (weight, up_bias, weight):  # rank 0 scatters the shards
            tally.op("scatter", num_bytes if is_root else 0, num_bytes // ranks)
        tally.broadcast(down_bias)  # it is not sharded
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for _ in range(STEPS):
        loss = model(torch.randn(BATCH, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tally.steps += 1
        # each block's partial output, and the gradient of the second block's input; the first block's needs none
        num_bytes = 3 * BATCH * WIDTH * FLOAT_BYTES
        tally.op("all_reduce", num_bytes, num_bytes, times=3)
        if is_root:
            print(f"step {tally.steps} loss {loss.item():.4f}", flush=True)

    rows = distribute_tensor(torch.arange(12.0).reshape(6, 2), mesh, [Shard(0)])
    tally.op("scatter", ROWS_BYTES if is_root else 0, ROWS_BYTES // ranks)
    rows.redistribute(placements=[Replicate()])
    tally.op("all_gather", ROWS_BYTES // ranks, ROWS_BYTES)
    partial = DTensor.from_local(torch.ones(6, 2), mesh, [Partial()])
    partial.redistribute(placements=[Replicate()])
    tally.op("all_reduce", ROWS_BYTES, ROWS_BYTES)
    partial.redistribute(placements=[Shard(0)])
    tally.op("reduce_scatter", ROWS_BYTES, ROWS_BYTES // ranks)

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
