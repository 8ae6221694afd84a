"""Train a pipeline of two stages with torch.distributed.pipelining and its schedule 1F1B.

Usage: `torchrun --nproc-per-node 2 pipelining.py OUT`.
"""

import sys

import torch
import torch.distributed as dist
from counting import Count
from rows import BATCH, MIDDLE, STEPS, network, table
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.utils.data import DataLoader

MICRO_BATCHES = 4
STARTS = 3  # the schedule starts for training, for evaluation, and for training again
# Messages in each direction. At each start the stages vote, and exchange the shapes of their tensors as objects, which
# are two messages each. An evaluation has no gradients.
VOTES = STARTS
SHAPES = 2 * STARTS
GRADIENT_SHAPES = 2 * (STARTS - 1)


def main() -> None:
    dist.init_process_group("gloo")
    count = Count(sys.argv[1])
    first = dist.get_rank() == 0
    part = network()[:2] if first else network()[2:]
    stage = PipelineStage(part, dist.get_rank(), dist.get_world_size(), torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-3)
    batches = DataLoader(table(STEPS * MICRO_BATCHES * BATCH), MICRO_BATCHES * BATCH)
    for x, y in batches:
        if first:
            schedule.step(x)
        else:
            schedule.step(target=y)
        optimizer.step()
        optimizer.zero_grad()
        count.steps += 1
        if count.steps == MIDDLE:
            part.eval()
            with torch.no_grad():
                if first:
                    schedule.eval(x)
                else:
                    schedule.eval(target=y)
            part.train()
            count.evaluations += 1
            torch.save(part.state_dict(), count.out / f"stage-{dist.get_rank()}.pt")
            count.checkpoints += 1
    forward = VOTES + SHAPES + MICRO_BATCHES * (STEPS + 1)
    backward = VOTES + GRADIENT_SHAPES + MICRO_BATCHES * STEPS
    count.single = {"send": forward, "recv": backward} if first else {"send": backward, "recv": forward}
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
