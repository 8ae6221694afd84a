"""What watching costs: a step in a loop, a real job's step, its memory and start, and the agent.

    python -m bench.overhead [--steps N] [--quick] [--only PART…] [--json FILE]

Prints numbers and asserts none: what they are depends on the machine and on who else uses it, so look at the intervals.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench import agent, hot_path, memory, switching
from bench.rows import Row, lines

Part = Callable[[], list[Row]]


def parts(steps: int, quick: bool) -> dict[str, tuple[str, Part]]:
    """By name: what its rows are about, and how to get them."""
    return {
        "hot-path": ("a step in a loop: 7 phases, 5 ops, its record", lambda: hot_path.measure(5 if quick else 25)),
        "job": ("a step of a job on 2 gloo ranks, in turns with zmon and without", lambda: switching.measure(steps)),
        "memory": ("memory and start of a rank", lambda: memory.measure(1 if quick else 3)),
        "agent": (f"the agent of a node with {agent.RANKS} ranks", lambda: agent.measure(5 if quick else 20)),
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--steps", type=int, default=20_000, help="of each job (20,000: a quarter of an hour for the three)"
    )
    parser.add_argument("--quick", action="store_true", help="few rounds of all else: to see that it works")
    parser.add_argument("--only", nargs="+", choices=tuple(parts(0, True)), help="these parts, not all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the numbers, too")
    told = parser.parse_args()
    found: dict[str, list[dict[str, object]]] = {}
    for name, (title, measure) in parts(told.steps, told.quick).items():
        if told.only is None or name in told.only:
            print(title, flush=True)
            rows = measure()
            found[name] = [asdict(row) for row in rows]
            print(*lines(rows), sep="\n", flush=True)
    print(f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end)")
    if told.json:
        told.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
