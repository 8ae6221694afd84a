"""What watching costs a real job: zmon is taken out of two gloo ranks and put back every 20 steps.

Blocks of steps with zmon are compared with their neighbours without it, so what else the machine does falls out of the
difference as far as it lasts longer than a block. By two clocks: wall, which also has the ranks waiting for each other,
and the processor time of the rank's own thread, which is steadier.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import numpy as np

from bench.ranks import run_ranks
from bench.rows import MICRO, PERCENT, Row

# Of a step, or as long as it must last on this machine, and how it spends them.
STEPS = ((0.020, "computes"), (0.002, "computes"), (0.020, "sleeps"))
_MODES = ("watched", "absent", "idle")  # the one in the middle is next to both others
_RESAMPLES = 10_000
_TRIMMED = 0.2  # of the differences at either end: a block in which somebody else had the core
_SECONDS_A_STEP = 0.1  # at most, else the run is given up

Told = list[dict[str, Any]]  # by rank, as bench.job writes it


def measure(steps: int) -> list[Row]:
    """For a long step and a short one, and one that mostly sleeps."""
    rows = []
    for seconds, how in STEPS:
        name = f"step of {seconds * 1000:.0f} ms that {how}"
        print(f"  {steps:,} steps …", file=sys.stderr, flush=True)
        told = run_job(steps, seconds, how, *_MODES)
        rows += [Row(f"{name}: {row.what}", row.value, row.unit, row.low, row.high) for row in compare(told)]
    return rows


def compare(told: Told) -> list[Row]:
    """From the blocks of all ranks to the difference that zmon makes."""
    blocks = {clock: _by_mode(told, clock) for clock in ("wall", "processor", "told")}
    step = statistics.median(blocks["wall"]["absent"])
    says, *_ = trimmed_mean(blocks["told"]["watched"])
    rows = [Row("without zmon it takes", step * MICRO, "µs"), Row("zmon says it takes", says * MICRO, "µs")]
    for clock in ("wall", "processor"):
        costs = trimmed_mean(blocks[clock]["watched"] - blocks[clock]["absent"])
        rows += [
            _row(f"watched, {clock}", costs, MICRO, "µs"),
            _row(f"watched, {clock}, of the step", costs, PERCENT / step, "%"),
            _row(f"watched, {clock}, over what zmon says", costs, 1 / says, "×"),
        ]
    idle = trimmed_mean(blocks["processor"]["idle"] - blocks["processor"]["absent"])
    return [*rows, _row("hooks in place but no rank, processor", idle, MICRO, "µs")]


def trimmed_mean(differences: np.ndarray) -> tuple[float, float, float]:
    """Of blocks or pairs of them; and the interval of 95 % of the means of as many drawn from them anew (bootstrap)."""
    drawn = np.random.default_rng(0).choice(differences, (_RESAMPLES, len(differences)))
    low, high = np.quantile(_trimmed(drawn), (0.025, 0.975))
    return float(_trimmed(differences)), float(low), float(high)


def run_job(steps: int, seconds: float, how: str, *modes: str) -> Told:
    """The job from its start to its end, in a box directory of its own; what its ranks measured."""
    return run_ranks("bench.job", str(steps), str(seconds), how, *modes, seconds=60 + steps * _SECONDS_A_STEP)


def _row(what: str, costs: tuple[float, float, float], times: float, unit: str) -> Row:
    value, low, high = (cost * times for cost in costs)
    return Row(what, value, unit, low, high)


def _by_mode(told: Told, clock: str) -> dict[str, np.ndarray]:
    """Means over the ranks, block by block; the n-th of one mode is a neighbour of the n-th of the others."""
    rounds = len(told[0]["blocks"]) // len(_MODES)
    return {
        mode: np.mean(
            [[block[clock] for block in rank["blocks"] if block["mode"] == mode][:rounds] for rank in told], axis=0
        )
        for mode in _MODES
    }


def _trimmed(differences: np.ndarray) -> np.ndarray:
    away = int(differences.shape[-1] * _TRIMMED)
    kept = np.sort(differences, axis=-1)[..., away : differences.shape[-1] - away]
    return np.asarray(kept.mean(axis=-1))
