"""The memory and start time that monitoring adds to a rank. The same job runs alternately with and without zmon."""

from __future__ import annotations

import statistics

from bench.rows import MEBI, Row
from bench.switching import run_job

_STEPS = 5000  # more than the ring of the box holds, so that all pages of the ring are in use


def measure(repeats: int) -> list[Row]:
    """Return medians over ranks and repeats."""
    watched, without = [], []
    for _ in range(repeats):
        watched += run_job(_STEPS, 0.0, "computes", "watched")
        without += run_job(_STEPS, 0.0, "computes", "never")
    rows = []
    for kind, name in (("rss", "resident (the box included)"), ("pss", "proportional"), ("private", "private")):
        costs = [rank["memory"][kind] for rank in watched]
        baseline = statistics.median(rank["memory"][kind] for rank in without)
        rows.append(Row(f"memory of a rank, {name}, without zmon", baseline * MEBI, "MiB"))
        rows.append(
            Row(f"memory of a rank, {name}, added by zmon", (statistics.median(costs) - baseline) * MEBI, "MiB")
        )
    for part in ("import", "attach"):
        seconds = statistics.median(rank[f"{part}_seconds"] for rank in watched)
        rows.append(Row(f"start: {part}, with torch loaded", seconds * 1000, "ms"))
    return rows
