"""The loss of quality by half precision on the network. `python -m bench.wire` takes five minutes on two cores.

Two ranks train a small model with sharded tables, once with full precision, and once with each of five reduced
precisions of pooled vectors and their gradients (WIRES). All runs have the same samples and the same initial weights.
The models are compared on held-out samples, by the difference of each sample's log-loss to the run with full precision.
The difference cancels the variation between samples, which is larger. One more run, in float64, shows the rounding
error of full precision itself.

Tables are small and batches are large, so that every row is trained well. If rows occur only a few times, any two runs
differ, because row-wise AdaGrad turns the first gradient of a row, however small, into a step of the learning rate.

NE is normalized entropy. The interval covers the choice of held-out samples, but not other seeds: try some with --seed.
"""

from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from bench.rows import NORMAL_QUANTILE, PERCENT, parser_of, table_line
from trainer.batch import StepBatch, shares
from trainer.keys import apply_changes
from trainer.loader import Extent, Loader
from trainer.loop import steps
from trainer.quality import quality, sums
from trainer.scale.config import RunConfig
from trainer.scale.planning import plan
from trainer.scale.presets import demo
from trainer.scale.run import open_source
from trainer.train import Trainer
from trainer.world import World, join, world_from

RANKS = 2
MODEL = {
    "embedding": {"rows": [500] * 8, "kernel": "torch"},  # this kernel supports float64 too
    "model": {"bottom": [32], "top": [32]},
    "train": {"global_batch": 2048},
    "optimizer": {"dense_learning_rate": 0.005, "embedding_learning_rate": 0.02},
    "sharding": {"kind": "table_wise"},
}
FULL = ("full", "full")
WIRES = (  # precisions of pooled vectors (forward) and of their gradients (backward)
    ("float16", "full"),
    ("bfloat16", "full"),
    ("float16", "float16"),
    ("float16", "bfloat16"),
    ("bfloat16", "bfloat16"),
)
EVALUATION_BATCH = 4096  # samples
_HEADS = ("forward", "backward", "sent by a rank", "NE", "difference", "95 % from", "to", "step")


@dataclass(frozen=True)
class Result:
    """The result of one run."""

    log_loss: Tensor  # (N,), of each held-out sample of this rank
    entropy: float  # normalized entropy over the held-out samples of all ranks
    sent_bytes: int  # planned bytes of rank 0 in a step, including those that it sends to itself
    step_seconds: float  # mean over all steps


def main() -> None:
    """Train and print the table if this process is a rank; start the ranks otherwise."""
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=2000, help="steps of each run (2000)")
    parser.add_argument(
        "--held-out", type=int, default=100, help=f"held-out batches of {EVALUATION_BATCH:,} samples (100)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and samples (1)")
    arguments = parser.parse_args()
    world = join_ranks("bench.wire")
    samples = arguments.held_out * EVALUATION_BATCH
    world.say(f"{arguments.steps:,} steps, {samples:,} held-out samples, seed {arguments.seed}")
    world.say(table_line(_HEADS, _HEADS))
    runs = [(*FULL, "float32"), (*FULL, "float64"), *((*wire, "float32") for wire in WIRES)]
    full: Result | None = None
    for forward, backward, dtype in runs:
        changes = {
            "train": {"dtype": dtype, "seed": arguments.seed, "steps": arguments.steps},
            "wire": {"forward": forward, "backward": backward},
            "schedule": warm_up_and_decay(arguments.steps),
        }
        result = train(apply_changes(demo(), [MODEL, changes]), world, arguments.held_out)
        full = full or result
        name = dtype if dtype == "float64" else forward
        world.say(table_line((name, *_cells(backward, result, full)), _HEADS))
    dist.destroy_process_group()


def join_ranks(module: str) -> World:
    """Return the world of this rank. If this process is no rank, let torchrun take its place and start the ranks."""
    if "RANK" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", "-m", module]
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.execv(sys.executable, [sys.executable, *launcher, *sys.argv[1:]])
    world = world_from(os.environ)
    join(world)
    return world


def warm_up_and_decay(steps: int) -> dict[str, int]:
    """Return the schedule of a run of this many steps."""
    return {"warmup_steps": steps // 20, "decay_start_step": steps // 2, "decay_steps": steps - steps // 2}


def train(config: RunConfig, world: World, held_out: int) -> Result:
    """Train as configured, then evaluate `held_out` batches of EVALUATION_BATCH samples. A collective of all ranks."""
    source = open_source(config, world)
    planned = plan(config, world)
    trainer = Trainer(config, world, planned.tables)
    extent = Extent.of_steps(config.train.steps, config.train.global_batch)
    begin = time.perf_counter()
    with Loader(source, extent, world.rank, world.size, config.loader.depth) as batches:
        for _ in steps(trainer, batches):
            pass
    seconds = time.perf_counter() - begin
    share = shares(EVALUATION_BATCH, world.size)[world.rank]
    losses = []
    total = torch.zeros(4, dtype=torch.float64)
    for number in range(held_out):
        batch = source.held_out().batch(number, share.start, share.size)
        logits = trainer.predict(StepBatch(number, EVALUATION_BATCH, batch)).double()
        losses.append(F.binary_cross_entropy_with_logits(logits, batch.labels.double(), reduction="none"))
        total += sums(logits, batch.labels)
    dist.all_reduce(total)
    sent = planned.predicted[0].sent_bytes
    return Result(torch.cat(losses), quality(total).normalized_entropy, sent, seconds / config.train.steps)


def difference(result: Result, full: Result) -> tuple[float, float]:
    """Return the relative difference in log-loss from the full-precision run, and its standard error.

    This is the mean difference, divided by the mean log-loss of the full-precision run. The ratio is the same for
    normalized entropy. This is a collective: all ranks must call it, and all get the same result.
    """
    delta = result.log_loss - full.log_loss
    total = torch.stack(
        [torch.tensor(len(delta), dtype=torch.float64), delta.sum(), delta.square().sum(), full.log_loss.sum()]
    )
    dist.all_reduce(total)
    samples = total[0].item()
    mean, square, log_loss = (total[1:] / samples).tolist()
    return mean / log_loss, math.sqrt(max(square - mean**2, 0) / samples) / log_loss


def _cells(backward: str, result: Result, full: Result) -> tuple[str, ...]:
    mean, error = difference(result, full)
    half_width = NORMAL_QUANTILE * error
    return (
        backward, f"{result.sent_bytes / 1000:.0f} kB", f"{result.entropy:.5f}",
        *(f"{value * PERCENT:+.4f} %" for value in (mean, mean - half_width, mean + half_width)),
        f"{result.step_seconds * 1000:.1f} ms",
    )  # fmt: skip


if __name__ == "__main__":
    main()
