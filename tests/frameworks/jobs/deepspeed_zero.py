"""Train with DeepSpeed's ZeRO; evaluate and save with its engine in the middle.

Usage: `torchrun --nproc-per-node 2 deepspeed_zero.py OUT STAGE`.
"""

import sys

import deepspeed
import torch
import torch.distributed as dist
from counting import Count
from rows import BATCH, MIDDLE, evaluate, loader, network
from torch import nn

ACCUMULATE = 2  # batches of a step


def main() -> None:
    deepspeed.init_distributed("gloo")
    count = Count(sys.argv[1])
    config = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": ACCUMULATE,
        "zero_optimization": {"stage": int(sys.argv[2])},
        "zero_allow_untested_optimizer": True,
        "gradient_clipping": 1.0,
    }
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for x, y in loader(ACCUMULATE):
        loss = nn.functional.mse_loss(engine(x), y)
        engine.backward(loss)
        engine.step()
        if engine.global_steps == count.steps:
            continue
        count.steps = engine.global_steps
        if count.steps == MIDDLE:
            evaluate(engine)
            count.evaluations += 1
            engine.save_checkpoint(str(count.out / "saved"))
            count.checkpoints += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
