"""The bundled trainer's step next to plain torch and to what it takes at least, on two ranks of one thread each.

    python -m bench.trainer [--rounds N] [--only speed|memory] [--quick]

All ways train by turns in the same processes, so what else the machine does strikes them alike: compare within a
column. `processor` is the time of all threads of a rank, which is steadier where others use the machine, too. Prints
numbers and asserts none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from bench.dlrm import Shape
from bench.ranks import run_ranks
from bench.rows import MEBI, PERCENT, Row, lines
from bench.trainer_job import BLOCK, COPY, FIRST, OURS, PLAIN, PRODUCTS

_POOLING = (1, 20)
_SMALL = {"rows": 1000, "global_batch": 64, "bottom": (32,), "top": (32,)}
_ROUND_SECONDS = 60  # at most, of all ways; else the run is given up
_HEADS = f"  {'':<58}{'median':>8}{'10 %':>9}{'90 %':>9}{'processor':>11}{'÷ floor':>10}{'plain ÷ it':>12}"
_PEERS = "(not part of this run: facebookresearch/dlrm and TorchRec 1.8, side by side with ours in docs/trainer.md)"

Told = list[dict[str, Any]]  # by rank, as bench.trainer_job writes it


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help=f"blocks of {BLOCK} steps of each way (20: 4 minutes)")
    parser.add_argument("--only", choices=("speed", "memory"), help="this part, not both")
    parser.add_argument("--quick", action="store_true", help="a small model, two rounds: to see that it works")
    told = parser.parse_args()
    shapes = [Shape(pooling, **(_SMALL if told.quick else {})) for pooling in _POOLING]
    if told.only != "memory":
        print(_about(shapes[0]), flush=True)
        for shape in shapes:
            print(*speed(shape, 2 if told.quick else told.rounds), sep="\n", flush=True)
        print(_PEERS)
    if told.only != "speed":
        print("most memory a rank ever had, and the plan's prediction", flush=True)
        for shape in (*shapes, None):
            print(*lines(memory(shape, 30)), sep="\n", flush=True)
    print(f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end)")


def speed(shape: Shape, rounds: int) -> Iterator[str]:
    """A table of all ways: the floor first, then plain torch, then ours."""
    told: Told = run_ranks(
        "bench.trainer_job", json.dumps(asdict(shape)), str(rounds), seconds=60 + rounds * _ROUND_SECONDS
    )
    seconds, processor = (
        {way: [taken for rank in told for taken in rank[clock][way]] for way in told[0][clock]}
        for clock in ("seconds", "processor")
    )
    median = {way: statistics.median(taken) for way, taken in seconds.items()}
    floor, plain = median[PRODUCTS] + median[COPY], median[PLAIN]
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(told[0]["plan"]).items())
    work = told[0]["work"]
    yield f"pooling {shape.pooling}; the planner's choice for “{OURS}”: {kinds}; milliseconds a step"
    yield _HEADS
    yield _line(
        f"floor: {PRODUCTS}, {work['operations'] / median[PRODUCTS] * 1e-9:.0f} GFLOP/s",
        seconds[PRODUCTS],
        processor[PRODUCTS],
    )
    yield _line(f"floor: {COPY}, {work['traffic'] / median[COPY] * 1e-9:.1f} GB/s", seconds[COPY], processor[COPY])
    yield f"  {'floor':<58}{floor * 1e3:>8.2f}"
    for way, taken in seconds.items():
        if way not in (PRODUCTS, COPY):
            yield f"{_line(way, taken, processor[way])}{median[way] / floor:>8.2f} ×{plain / median[way]:>10.2f} ×"


def memory(shape: Shape | None, steps: int) -> Iterator[Row]:
    """Peak and prediction of each rank in a whole run of this shape; None: of the preset demo."""
    name = f"pooling {shape.pooling}" if shape else "preset demo"
    what = json.dumps(asdict(shape)) if shape else "demo"
    for rank, told in enumerate(run_ranks("bench.trainer_memory", what, str(steps), seconds=300)):
        peak, predicted = told["peak"], told["predicted"]
        yield Row(f"{name}, rank {rank}: peak", peak * MEBI, "MiB")
        yield Row(f"{name}, rank {rank}: predicted", predicted * MEBI, "MiB")
        yield Row(f"{name}, rank {rank}: peak over the prediction", (peak / predicted - 1) * PERCENT, "%")


def _about(shape: Shape) -> str:
    bottom, top = ("-".join(map(str, widths)) for widths in ((13, *shape.bottom, shape.dim), (*shape.top, 1)))
    return (
        f"2 ranks of one thread, {shape.global_batch:,} samples a step, {shape.tables} tables × {shape.rows:,} rows"
        f" × {shape.dim}, MLPs {bottom} and {top}; blocks of {BLOCK} steps by turns, the first {FIRST} do not count"
    )


def _line(what: str, seconds: list[float], processor: list[float]) -> str:
    low, *_, high = statistics.quantiles(seconds, n=10)
    cells = [statistics.median(seconds), low, high, statistics.median(processor)]
    return "".join(
        (f"  {what:<58}", *(f"{cell * 1e3:>{width}.2f}" for cell, width in zip(cells, (8, 9, 9, 11), strict=True)))
    )


if __name__ == "__main__":
    main()
