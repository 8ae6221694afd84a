"""The cost of monitoring in a real job on two gloo ranks, which change their mode every 20 steps.

The modes are watched (zmon records the rank), absent (torch without zmon) and idle (hooks installed, but no rank).
Blocks of steps with zmon are compared with neighbouring blocks without it, so that other load of the machine cancels
out if it lasts longer than a block. There are two clocks: wall-clock, which includes waiting for the other rank, and
the CPU time of the rank's main thread, which is steadier.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import numpy as np

from bench.ranks import run_ranks
from bench.rows import MICRO, PERCENT, Row

# The seconds of a step (longer on a slow machine), and what it does in them.
STEPS = ((0.020, "computes"), (0.002, "computes"), (0.020, "sleeps"))
MODES = ("watched", "absent", "idle")  # blocks run forward and backward, so "absent" neighbours both others
_RESAMPLES = 10_000
_TRIM_RATIO = 0.2  # dropped at either end of the differences: blocks in which another process used the core
_MAX_STEP_SECONDS = 0.1  # if the mean step takes longer, the run is aborted

Results = list[dict[str, Any]]  # by rank, as bench.job writes them


def measure(steps: int) -> list[Row]:
    """Measure a long step, a short one and one that mostly sleeps."""
    rows = []
    for seconds, fill_mode in STEPS:
        name = f"step of {seconds * 1000:.0f} ms that {fill_mode}"
        print(f"  {steps:,} steps …", file=sys.stderr, flush=True)
        results = run_job(steps, seconds, fill_mode, *MODES)
        rows += [Row(f"{name}: {row.what}", row.value, row.unit, row.low, row.high) for row in compare(results)]
    return rows


def compare(results: Results) -> list[Row]:
    """Compute the cost of zmon from the blocks of all ranks."""
    blocks = {clock: _by_mode(results, clock) for clock in ("wall", "processor", "reported")}
    step = statistics.median(blocks["wall"]["absent"])
    reported, *_ = trimmed_mean(blocks["reported"]["watched"])
    rows = [Row("without zmon", step * MICRO, "µs"), Row("overhead that zmon reports", reported * MICRO, "µs")]
    for clock in ("wall", "processor"):
        costs = trimmed_mean(blocks[clock]["watched"] - blocks[clock]["absent"])
        rows += [
            _row(f"watched, {clock}", costs, MICRO, "µs"),
            _row(f"watched, {clock}, of the step", costs, PERCENT / step, "%"),
            _row(f"watched, {clock}, ÷ overhead that zmon reports", costs, 1 / reported, "×"),
        ]
    idle = trimmed_mean(blocks["processor"]["idle"] - blocks["processor"]["absent"])
    return [*rows, _row("hooks installed but no rank, processor", idle, MICRO, "µs")]


def trimmed_mean(differences: np.ndarray) -> tuple[float, float, float]:
    """Return the trimmed mean of differences, and its 95 % interval by bootstrap."""
    resamples = np.random.default_rng(0).choice(differences, (_RESAMPLES, len(differences)))
    low, high = np.quantile(_trimmed(resamples), (0.025, 0.975))
    return float(_trimmed(differences)), float(low), float(high)


def run_job(steps: int, seconds: float, fill_mode: str, *modes: str) -> Results:
    """Run the job to its end, with its own box directory; return the measurements of its ranks."""
    return run_ranks("bench.job", str(steps), str(seconds), fill_mode, *modes, seconds=60 + steps * _MAX_STEP_SECONDS)


def _row(name: str, costs: tuple[float, float, float], times: float, unit: str) -> Row:
    value, low, high = (cost * times for cost in costs)
    return Row(name, value, unit, low, high)


def _by_mode(results: Results, clock: str) -> dict[str, np.ndarray]:
    """Return the means over the ranks by block; the n-th block of a mode neighbours the n-th of the others."""
    rounds = len(results[0]["blocks"]) // len(MODES)
    return {
        mode: np.mean(
            [[block[clock] for block in rank["blocks"] if block["mode"] == mode][:rounds] for rank in results], axis=0
        )
        for mode in MODES
    }


def _trimmed(differences: np.ndarray) -> np.ndarray:
    num_trimmed = int(differences.shape[-1] * _TRIM_RATIO)
    middle = np.sort(differences, axis=-1)[..., num_trimmed : differences.shape[-1] - num_trimmed]
    return np.asarray(middle.mean(axis=-1))
