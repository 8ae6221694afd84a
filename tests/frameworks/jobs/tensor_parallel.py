"""Train with tensor parallelism by DTensor, and save asynchronously with torch's distributed checkpoint.

Usage: `torchrun --nproc-per-node 2 tensor_parallel.py OUT [--compile]`.
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from counting import Count
from rows import BATCH, MIDDLE, STEPS, evaluate, network, table
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader


def main() -> None:
    dist.init_process_group("gloo")
    count = Count(sys.argv[1])
    saving_group = dist.new_group()  # the collectives of the thread that saves must not mix with those of training
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallel = parallelize_module(network(), mesh, plan)
    model = torch.compile(parallel) if "--compile" in sys.argv else parallel
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-3, foreach=False)
    for x, y in DataLoader(table(STEPS * BATCH), BATCH):  # both ranks have the same batches
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        count.steps += 1
        if count.steps == MIDDLE:
            evaluate(model)
            count.evaluations += 1
            state = {"model": parallel.state_dict()}
            saving = dcp.async_save(state, checkpoint_id=count.out / "checkpoint", process_group=saving_group)
            count.checkpoints += 1
            if "--compile" in sys.argv:  # on a busy machine the thread that saves stops compiled code for seconds
                saving.result()
    saving.result()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
