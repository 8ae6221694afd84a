"""Train with Accelerate and gradient accumulation; evaluate and save its state in the middle.

Usage: `accelerate launch … accelerated.py OUT`.
"""

import sys

import torch
from accelerate import Accelerator
from counting import Count
from rows import BATCH, MIDDLE, STEPS, evaluate, network, table
from torch import nn
from torch.utils.data import DataLoader

ACCUMULATE = 2  # batches of a step


def main() -> None:
    count = Count(sys.argv[1])
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATE)
    count.rank = accelerator.process_index
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = table(STEPS * ACCUMULATE * BATCH * accelerator.num_processes)
    model, optimizer, batches = accelerator.prepare(model, optimizer, DataLoader(data, BATCH, shuffle=True))
    for x, y in batches:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if not accelerator.sync_gradients:
            continue
        count.steps += 1
        if count.steps == MIDDLE:
            evaluate(model)
            count.evaluations += 1
            accelerator.save_state(str(count.out / "state"))
            count.checkpoints += 1
    accelerator.end_training()


if __name__ == "__main__":
    main()
