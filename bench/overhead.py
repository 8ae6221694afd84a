"""The cost of monitoring: a step in a loop, a step of a real job, memory and start of a rank, and the agent.

    python -m bench.overhead [--steps N] [--quick] [--only PART…] [--json FILE]

It prints numbers but does not check them, because they depend on the machine and its other load. Compare the 95 %
intervals, not only the values.
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
    """Return title and measuring function of each part, by the part's name."""
    return {
        "hot-path": ("a step in a loop: 7 phases, 5 ops, its record", lambda: hot_path.measure(5 if quick else 25)),
        "job": ("a step of a job on 2 gloo ranks, in turns watched, absent and idle", lambda: switching.measure(steps)),
        "memory": ("memory and start of a rank", lambda: memory.measure(1 if quick else 3)),
        "agent": (f"the agent of a node with {agent.RANKS} ranks", lambda: agent.measure(5 if quick else 20)),
    }  # fmt: skip


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--steps", type=int, default=20_000, help="steps of each job (20,000: 15 minutes for the three jobs)"
    )
    parser.add_argument("--quick", action="store_true", help="few rounds in the other parts, as a quick check")
    parser.add_argument("--only", nargs="+", choices=tuple(parts(0, True)), help="measure only these parts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file as well")
    arguments = parser.parse_args()
    results: dict[str, list[dict[str, object]]] = {}
    for name, (title, measure) in parts(arguments.steps, arguments.quick).items():
        if arguments.only is None or name in arguments.only:
            print(title, flush=True)
            rows = measure()
            results[name] = [asdict(row) for row in rows]
            print(*lines(rows), sep="\n", flush=True)
    print(f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end)")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
