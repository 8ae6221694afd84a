"""Not a test: what each rank of test_exactness.py runs. Trains and keeps weights, accumulators and losses.

torchrun … train_and_keep.py STEPS OUT CHANGES, the last as JSON for trainer.config.changed
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from trainer.config import changed, demo
from trainer.train import Trainer
from trainer.world import join, world_from


def main(steps: int, out: Path, changes: dict) -> None:
    world = world_from(os.environ)
    join(world)
    for dtype in ("float64", "float32"):
        trainer = Trainer(changed(demo(), [changes, {"train": {"dtype": dtype}}]), world)
        losses = [trainer.step(number)[0] for number in range(steps)]
        rows = [trainer.config.embedding.rows[table] for table in trainer.placement[world.rank]]
        owned = zip(
            trainer.placement[world.rank],
            trainer.tables.weight.split(rows),
            trainer.tables.accumulator.split(rows),
            strict=True,
        )
        tables = {table: (weight.clone(), accumulator.clone()) for table, weight, accumulator in owned}
        kept = {"losses": losses, "dense": trainer.dense.state_dict(), "tables": tables}
        torch.save(kept, out / f"{dtype}-{world.rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
