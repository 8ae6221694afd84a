"""What the agent of a node takes with 1, 8 and 16 ranks: `make bench`, four minutes.

    python -m bench [--seconds N] [--ranks N …]

Prints numbers and asserts none: what they are depends on the machine and on who else uses it, so look at how they grow.
"""

from __future__ import annotations

import argparse
import os
import statistics

from bench.agent import SCRAPE_SECONDS, Cost, costs
from bench.rows import MEBI, PERCENT, table_line

_HEADS = ("ranks", "asked by", "of a core", "÷ first", "resident", "scrape, median", "slowest", "series", "a rank's")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement (30)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 8, 16], help="on the node (1 8 16)")
    told = parser.parse_args()
    print(f"ranks step every 20 ms, boxes are looked at every 100 ms, a scrape every {SCRAPE_SECONDS:g} s")
    print(table_line(_HEADS, _HEADS), flush=True)
    first = None
    for ranks in told.ranks:
        for who, cost in zip(("Prometheus", "and a hub"), costs(told.seconds, ranks), strict=True):
            first = first or cost
            print(table_line(_cells(ranks, who, cost, first), _HEADS), flush=True)
    print(f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end)")


def _cells(ranks: int, who: str, cost: Cost, first: Cost) -> tuple[str, ...]:
    return (
        str(ranks),
        who,
        f"{cost.core * PERCENT:.2f} %",
        f"{cost.core / first.core:.1f} ×",
        f"{cost.resident_bytes * MEBI:.1f} MiB",
        f"{statistics.median(cost.scrape_seconds) * 1000:.1f} ms",
        f"{max(cost.scrape_seconds) * 1000:.1f} ms",
        str(cost.num_series),
        str(cost.num_rank_series),
    )


if __name__ == "__main__":
    main()
