"""The bundled trainer's step compared with plain torch and with a lower bound, on two ranks of one thread each.

    python -m bench.trainer [--rounds N] [--only speed|memory]

All variants train in turns in the same processes, so other load of the machine affects them alike. Compare within a
column. `CPU time` covers all threads of a rank. It is steadier on a shared machine. The second part measures the peak
memory of the ranks in whole runs, next to the plan's prediction. The benchmark prints numbers but does not check them.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from bench.dlrm import Shape
from bench.ranks import run_ranks
from bench.rows import MIB_PER_BYTE, PERCENT, Row, lines, load_line, parser_of
from bench.trainer_job import BLOCK_STEPS, COPY, OURS, PLAIN, PRODUCTS, WARM_UP_STEPS

_POOLING = (1, 20)
_MAX_ROUND_SECONDS = 60  # if a round of all variants takes longer, the run is aborted
_HEADS = (
    f"  {'':<58}{'median':>8}{'10 %':>9}{'90 %':>9}{'CPU time':>11}"
    f"{'relative to floor':>19}{'speedup over plain torch':>26}"
)

Results = list[dict[str, Any]]  # by rank, as bench.trainer_job writes them


def main() -> None:
    """Measure and print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--rounds", type=int, default=20, help=f"blocks of {BLOCK_STEPS} steps per variant (20: 4 minutes)"
    )
    parser.add_argument("--only", choices=("speed", "memory"), help="measure only this part")
    arguments = parser.parse_args()
    shapes = [Shape(pooling) for pooling in _POOLING]
    if arguments.only != "memory":
        print(_about(shapes[0]), flush=True)
        for shape in shapes:
            print(*speed(shape, arguments.rounds), sep="\n", flush=True)
        print("(other trainers: python -m bench.rivals)")
    if arguments.only != "speed":
        print("peak memory of each rank, and the plan's prediction", flush=True)
        for memory_shape in (*shapes, None):
            print(*lines(memory(memory_shape, 30)), sep="\n", flush=True)
    print(load_line())


def speed(shape: Shape, rounds: int) -> Iterator[str]:
    """Yield the lines of a table: the floor, plain torch, and the variants of the bundled trainer."""
    results: Results = run_ranks(
        "bench.trainer_job", json.dumps(asdict(shape)), str(rounds), seconds=60 + rounds * _MAX_ROUND_SECONDS
    )
    seconds, cpu_seconds = (
        {name: [value for rank in results for value in rank[clock][name]] for name in results[0][clock]}
        for clock in ("seconds", "cpu_seconds")
    )
    median = {name: statistics.median(values) for name, values in seconds.items()}
    floor = median[PRODUCTS] + median[COPY]
    plain = median[PLAIN]
    num_tables: Counter[str] = Counter(results[0]["plan"])  # by kind
    kinds = ", ".join(f"{count} {kind}" for kind, count in num_tables.items())
    work = results[0]["work"]
    yield f"pooling {shape.pooling}; the planner's choice for `{OURS}`: {kinds}; milliseconds per step"
    yield _HEADS
    yield _line(
        f"floor: {PRODUCTS}, {work['operations'] / median[PRODUCTS] * 1e-9:.0f} GFLOP/s",
        seconds[PRODUCTS],
        cpu_seconds[PRODUCTS],
    )
    yield _line(f"floor: {COPY}, {work['traffic'] / median[COPY] * 1e-9:.1f} GB/s", seconds[COPY], cpu_seconds[COPY])
    yield f"  {'floor':<58}{floor * 1e3:>8.2f}"
    for name, values in seconds.items():
        if name not in (PRODUCTS, COPY):
            ratios = f"{median[name] / floor:>17.2f} ×{plain / median[name]:>24.2f} ×"
            yield f"{_line(name, values, cpu_seconds[name])}{ratios}"


def memory(shape: Shape | None, steps: int) -> Iterator[Row]:
    """Yield peak and predicted memory of each rank in a whole run of this shape; None means the preset demo."""
    name = f"pooling {shape.pooling}" if shape else "preset demo"
    shape_json = json.dumps(asdict(shape)) if shape else "demo"
    for rank, result in enumerate(run_ranks("bench.trainer_memory", shape_json, str(steps), seconds=300)):
        peak, predicted = result["peak"], result["predicted"]
        yield Row(f"{name}, rank {rank}: peak", peak * MIB_PER_BYTE, "MiB")
        yield Row(f"{name}, rank {rank}: predicted", predicted * MIB_PER_BYTE, "MiB")
        yield Row(f"{name}, rank {rank}: peak over the prediction", (peak / predicted - 1) * PERCENT, "%")


def _about(shape: Shape) -> str:
    bottom, top = ("-".join(map(str, widths)) for widths in ((13, *shape.bottom, shape.dim), (*shape.top, 1)))
    return (
        f"2 ranks of one thread, {shape.global_batch:,} samples per step, {shape.tables} tables × {shape.rows:,} rows"
        f" × {shape.dim}, MLPs {bottom} and {top}; blocks of {BLOCK_STEPS} steps in turns,"
        f" the first {WARM_UP_STEPS} do not count"
    )


def _line(name: str, seconds: list[float], cpu_seconds: list[float]) -> str:
    low, *_, high = statistics.quantiles(seconds, n=10)
    cells = [statistics.median(seconds), low, high, statistics.median(cpu_seconds)]
    return "".join(
        (f"  {name:<58}", *(f"{cell * 1e3:>{width}.2f}" for cell, width in zip(cells, (8, 9, 9, 11), strict=True)))
    )


if __name__ == "__main__":
    main()
