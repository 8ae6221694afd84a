"""The loss of quality by weights in half precision. `python -m bench.weights` takes 12 minutes on two cores.

The model, the ranks and the samples are as in bench.wire. For each seed, a run with weights in float32 is compared
with these runs, on held-out samples, by the difference of each sample's log-loss:

    float16, bfloat16    weights in half precision, whose updates are rounded at random
    to the nearest       weights in bfloat16, whose updates are rounded to the nearest number
    products bf16        weights in float32, and matrix products in bfloat16 (`train.cpu_autocast`)

NE is normalized entropy. The interval of a seed covers the choice of held-out samples. That of all seeds is Student's
interval of the mean of their differences.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from bench.rows import NORMAL_QUANTILE, PERCENT, T_QUANTILES, mean_and_half_width, parser_of, table_line
from bench.wire import MODEL, Result, difference, join_ranks, train, warm_up_and_decay
from trainer.keys import apply_changes
from trainer.registry import WEIGHT_TYPES
from trainer.scale.half_precision import HalfPrecision
from trainer.scale.presets import demo
from trainer.sharding import Group

FULL, NEAREST, PRODUCTS = "float32", "bfloat16, to the nearest", "float32, products bf16"
RUNS = {  # by name: the type of the weights; "": float32
    FULL: "", "float16, at random": "float16", "bfloat16, at random": "bfloat16", NEAREST: "bfloat16", PRODUCTS: "",
}  # fmt: skip
_HEADS = ("seed", "weights and their rounding", "NE", "difference", "95 % from", "to", "step")


class Nearest(HalfPrecision):
    """Weights whose updates are rounded to the nearest number."""

    def add(self, weight: Tensor, rows: Tensor, change: Tensor, step: int, slots: Tensor) -> None:
        """Add to these rows, and round to the nearest number."""
        del rows, step
        slots = slots.long()
        weight.index_copy_(0, slots, change.add_(weight.index_select(0, slots)).to(self.dtype))


def main() -> None:
    """Train and print the table if this process is a rank; start the ranks otherwise."""
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=2000, help="steps of each run (2000)")
    parser.add_argument("--held-out", type=int, default=100, help="held-out batches of 4,096 samples (100)")
    parser.add_argument("--seeds", type=int, default=5, choices=T_QUANTILES, help="number of seeds (5)")
    arguments = parser.parse_args()
    world = join_ranks("bench.weights")
    world.say(table_line(_HEADS, _HEADS))
    at_random = WEIGHT_TYPES["bfloat16"]
    differences = dict[str, list[float]]()
    for seed in range(1, arguments.seeds + 1):
        full: Result | None = None
        for name, dtype in RUNS.items():
            WEIGHT_TYPES["bfloat16"] = _nearest if name == NEAREST else at_random
            changes = {
                "train": {"seed": seed, "steps": arguments.steps, "cpu_autocast": name == PRODUCTS},
                "embedding": {"dtype": dtype},
                "schedule": warm_up_and_decay(arguments.steps),
            }
            result = train(apply_changes(demo(), [MODEL, changes]), world, arguments.held_out)
            full = full or result
            mean, error = difference(result, full)
            differences.setdefault(name, []).append(mean)
            half_width = NORMAL_QUANTILE * error
            cells = () if name == FULL else (mean, mean - half_width, mean + half_width)
            world.say(_line(str(seed), name, f"{result.entropy:.5f}", cells, f"{result.step_seconds * 1e3:.1f} ms"))
    for name in [*RUNS][1:]:
        mean, half = mean_and_half_width(differences[name])
        world.say(_line("all", name, "", (mean, mean - half, mean + half), ""))
    dist.destroy_process_group()


def _nearest(computed: torch.dtype, seed: int, group: Group, device: torch.device) -> Nearest:
    return Nearest(torch.bfloat16, computed, seed, group.shards, device)


def _line(seed: str, name: str, entropy: str, shares: tuple[float, ...], step: str) -> str:
    cells = [f"{share * PERCENT:+.4f} %" for share in shares] or [""] * 3
    return table_line((seed, name, entropy, *cells, step), _HEADS)


if __name__ == "__main__":
    main()
