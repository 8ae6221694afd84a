"""The time that MLPerf's DLRM-DCNv2 takes to a target quality on two ranks.

    python -m bench.time_to_auc [--minutes N] [--seed N]

It trains the preset mlperf_dcnv2, a scaled-down model on synthetic samples, so the result compares versions of this
trainer on one machine, and nothing else. As in MLPerf, the model is evaluated at fixed steps on held-out samples, and
the time runs from the first step to the evaluation that reaches the target.

The target was written down before the first run: the middle between the AUC of the dense features alone, 0.663, and of
the hidden model that draws the labels, 0.825, on 20 held-out batches. Only a model that learns its tables reaches it.
"""

from __future__ import annotations

import time

import torch.distributed as dist

from bench.rows import load_line, parser_of, table_line
from bench.wire import join_ranks
from trainer.keys import apply_changes
from trainer.loader import Extent, Loader
from trainer.loop import evaluate, steps
from trainer.scale.planning import plan
from trainer.scale.presets import mlperf_dcnv2
from trainer.scale.run import open_source
from trainer.train import Trainer

TARGET_AUC = 0.744
EVERY = 25  # steps between two evaluations
_HEADS = ("steps", "samples", "minutes", "AUC", "NE")


def main() -> None:
    """Train and print a line for each evaluation if this process is a rank; start the ranks otherwise."""
    parser = parser_of(__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="give up after so many minutes (60)")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and samples (1)")
    arguments = parser.parse_args()
    world = join_ranks("bench.time_to_auc")
    config = apply_changes(mlperf_dcnv2(), [{"train": {"seed": arguments.seed}}])
    source = open_source(config, world)
    batch = config.train.global_batch
    trainer = Trainer(config, world, plan(config, world).tables)
    world.say(f"target: AUC {TARGET_AUC}")
    world.say(table_line(_HEADS, _HEADS))
    begin = time.perf_counter()
    reached = False
    with Loader(source, Extent.of_steps(None, batch), world.rank, world.size, config.loader.depth) as batches:
        for number, _ in enumerate(steps(trainer, batches), 1):
            if number % EVERY:
                continue
            quality = evaluate(trainer, source.held_out())
            minutes = [(time.perf_counter() - begin) / 60]
            dist.broadcast_object_list(minutes)  # all ranks end at the same step
            reached = quality.auc >= TARGET_AUC
            cells = (f"{number:,}", f"{number * batch:,}", f"{minutes[0]:.2f}")
            world.say(table_line((*cells, f"{quality.auc:.4f}", f"{quality.normalized_entropy:.4f}"), _HEADS))
            if reached or minutes[0] > arguments.minutes:
                break
    world.say("reached" if reached else "not reached")
    world.say(load_line())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
