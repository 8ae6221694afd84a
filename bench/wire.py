"""What half precision on the wire costs in quality: `python -m bench.wire`, five minutes on two cores.

Two ranks train a small model, all of its tables spread, on the same samples from the same weights, once for each
precision of pooled vectors and of their gradients. What they have learned is compared on held-out samples, by the
difference of each sample's log-loss to that of the run with full precision, so that the samples themselves, which are
the most of it, fall out. One more run says how far full precision is from itself: the same in float64.

Tables are small and batches large, so that every row is learned well. Where rows are seen a few times only, any two
runs differ by what AdaGrad makes of the first gradient of a number: a full rate up or down, however small it is.

NE is normalized entropy; the interval is that of the held-out samples, not of other seeds: try some with --seed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from bench.rows import PERCENT, table_line
from trainer.batch import shares
from trainer.config import Config
from trainer.keys import apply_changes
from trainer.loader import Extent, Loaded, Loader
from trainer.planning import plan
from trainer.presets import demo
from trainer.quality import quality, sums
from trainer.run import open_source
from trainer.train import Trainer
from trainer.world import World, join, world_from

RANKS = 2
MODEL = {
    "embedding": {"rows": [500] * 8, "kernel": "torch"},  # which has float64 too
    "model": {"bottom": [32], "top": [32]},
    "train": {"global_batch": 2048},
    "optimizer": {"dense_learning_rate": 0.005, "embedding_learning_rate": 0.02},
    "sharding": {"kind": "table_wise"},
}
FULL = ("full", "full")
WIRES = (  # forward, backward
    ("float16", "full"),
    ("bfloat16", "full"),
    ("float16", "float16"),
    ("float16", "bfloat16"),
    ("bfloat16", "bfloat16"),
)
EVALUATED = 4096  # samples at a time
_HEADS = ("forward", "backward", "sent by a rank", "NE", "difference", "95 % from", "to", "step")


@dataclass(frozen=True)
class Learned:
    """By one run, on this rank's held-out samples."""

    log_loss: Tensor  # (N,) of each
    entropy: float  # normalized, of all ranks' samples
    sent_bytes: int  # by rank 0 in a step, as planned; its own part included
    step_seconds: float


def main() -> None:
    """As a rank: train and tell. Else: start the ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="of each run (2000)")
    parser.add_argument("--held-out", type=int, default=100, help=f"times {EVALUATED:,} samples to compare on (100)")
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    if "RANK" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", "-m", "bench.wire"]
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.execv(sys.executable, [sys.executable, *launcher, *sys.argv[1:]])
    world = world_from(os.environ)
    join(world)
    world.say(f"{told.steps:,} steps, {told.held_out * EVALUATED:,} held-out samples, seed {told.seed}")
    world.say(table_line(_HEADS, _HEADS))
    runs = [(*FULL, "float32"), (*FULL, "float64"), *((*wire, "float32") for wire in WIRES)]
    full: Learned | None = None
    for forward, backward, dtype in runs:
        changes = {
            "train": {"dtype": dtype, "seed": told.seed, "steps": told.steps},
            "wire": {"forward": forward, "backward": backward},
            "schedule": {
                "warmup_steps": told.steps // 20,
                "decay_start_step": told.steps // 2,
                "decay_steps": told.steps - told.steps // 2,
            },
        }
        learned = learn(apply_changes(demo(), [MODEL, changes]), world, told.held_out)
        full = full or learned
        name = dtype if dtype == "float64" else forward
        world.say(table_line((name, *_cells(backward, learned, full)), _HEADS))
    dist.destroy_process_group()


def learn(config: Config, world: World, held_out: int) -> Learned:
    """Train as the configuration says, then look at so many times EVALUATED samples."""
    source = open_source(config, world)
    trainer = Trainer(config, world, plan(config, world))
    extent = Extent.of_steps(config.train.steps, config.train.global_batch)
    begin = time.perf_counter()
    with Loader(source, extent, world.rank, world.size, config.loader.depth) as batches:
        trainer.load_next(batches)
        while trainer.next_batch is not None:
            trainer.step(batches)
    seconds = time.perf_counter() - begin
    share = shares(EVALUATED, world.size)[world.rank]
    losses, total = [], torch.zeros(4, dtype=torch.float64)
    for number in range(held_out):
        batch = source.held_out().batch(number, share.start, share.size)
        logits = trainer.predict(Loaded(number, EVALUATED, batch)).double()
        losses.append(F.binary_cross_entropy_with_logits(logits, batch.labels.double(), reduction="none"))
        total += sums(logits, batch.labels)
    dist.all_reduce(total)
    sent = trainer.plan.predicted[0].sent_bytes
    return Learned(torch.cat(losses), quality(total).normalized_entropy, sent, seconds / config.train.steps)


def difference(learned: Learned, full: Learned) -> tuple[float, float]:
    """Of log-loss, which is that of normalized entropy, relative to full precision; and its standard error. The same on
    every rank, which must all ask."""
    apart = learned.log_loss - full.log_loss
    total = torch.stack(
        [torch.tensor(len(apart), dtype=torch.float64), apart.sum(), apart.square().sum(), full.log_loss.sum()]
    )
    dist.all_reduce(total)
    samples = total[0].item()
    mean, square, log_loss = (total[1:] / samples).tolist()
    return mean / log_loss, math.sqrt(max(square - mean**2, 0) / samples) / log_loss


def _cells(backward: str, learned: Learned, full: Learned) -> tuple[str, ...]:
    mean, error = difference(learned, full)
    return (
        backward,
        f"{learned.sent_bytes / 1000:.0f} kB",
        f"{learned.entropy:.5f}",
        *(f"{value * PERCENT:+.4f} %" for value in (mean, mean - 1.96 * error, mean + 1.96 * error)),
        f"{learned.step_seconds * 1000:.1f} ms",
    )


if __name__ == "__main__":
    main()
