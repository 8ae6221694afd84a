"""Train one replica group of two ranks with torchft: its manager votes on each update, FSDP2 shards the model.

Usage: `torchrun --nproc-per-node 2 torchft_ddp.py OUT`.
"""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from counting import Count
from rows import MIDDLE, evaluate, loader, network
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torchft import Manager, Optimizer, ProcessGroupGloo
from torchft._torchft import LighthouseServer


def main() -> None:
    dist.init_process_group("gloo")
    count = Count(sys.argv[1])
    lighthouse = None
    if dist.get_rank() == 0:  # the only replica group has its manager here
        lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=1)
        os.environ["TORCHFT_LIGHTHOUSE"] = lighthouse.address()
    model = network()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=60)), min_replica_size=1, replica_id="group-0",
        state_dict=lambda: {}, load_state_dict=lambda state: None, hostname="localhost",
    )  # fmt: skip
    fully_shard(model, mesh=mesh)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer = Optimizer(manager, inner)
    for x, y in loader():
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        for parameter in model.parameters():
            manager.allreduce(parameter.grad.to_local()).wait()
        optimizer.step()
        count.steps = manager.current_step()
        if count.steps == MIDDLE:
            evaluate(model)
            count.evaluations += 1
            torch.save(manager.state_dict(), count.out / f"manager-{dist.get_rank()}.pt")
            count.checkpoints += 1
    manager.shutdown()
    dist.barrier()
    if lighthouse is not None:
        lighthouse.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
