"""Train with FSDP2; evaluate with the sharded model, and save with torch's distributed checkpoint.

Usage: `torchrun --nproc-per-node 2 sharded.py OUT`.
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from counting import Count
from rows import MIDDLE, evaluate, loader, network
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main() -> None:
    dist.init_process_group("gloo")
    count = Count(sys.argv[1])
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = network()
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in loader():
        nn.functional.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        count.steps += 1
        if count.steps == MIDDLE:
            evaluate(model)
            count.evaluations += 1
            dcp.save(dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True)),
                     checkpoint_id=count.out / "checkpoint")  # fmt: skip
            count.checkpoints += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
