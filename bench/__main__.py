"""The cost of an agent with 1, 8 and 16 ranks. Takes four minutes.

    python -m bench [--seconds N] [--ranks N …]

It prints numbers but does not check them, because they depend on the machine and its other load. Compare how they grow.
"""

from __future__ import annotations

import statistics

from bench.agent import SCRAPE_SECONDS, Cost, costs
from bench.rows import MIB_PER_BYTE, PERCENT, load_line, parser_of, table_line

_HEADS = ("ranks", "clients", "of a core", "÷ first", "resident", "scrape, median", "slowest", "series", "per rank")


def main() -> None:
    """Measure and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of each measurement (30)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 8, 16], help="ranks on the node (1 8 16)")
    arguments = parser.parse_args()
    print(f"ranks step every 20 ms, the agent reads boxes every 100 ms, a scrape every {SCRAPE_SECONDS:g} s")
    print(table_line(_HEADS, _HEADS), flush=True)
    first = None
    for ranks in arguments.ranks:
        for clients, cost in zip(("Prometheus", "and a hub"), costs(arguments.seconds, ranks), strict=True):
            first = first or cost
            print(table_line(_cells(ranks, clients, cost, first), _HEADS), flush=True)
    print(load_line())


def _cells(ranks: int, clients: str, cost: Cost, first: Cost) -> tuple[str, ...]:
    return (
        str(ranks), clients, f"{cost.cpu_ratio * PERCENT:.2f} %", f"{cost.cpu_ratio / first.cpu_ratio:.1f} ×",
        f"{cost.resident_bytes * MIB_PER_BYTE:.1f} MiB", f"{statistics.median(cost.scrape_seconds) * 1000:.1f} ms",
        f"{max(cost.scrape_seconds) * 1000:.1f} ms", str(cost.num_series), str(cost.num_rank_series),
    )  # fmt: skip


if __name__ == "__main__":
    main()
