"""The memory and start time that monitoring adds to a rank. The same job runs alternately with and without zmon."""

from __future__ import annotations

import statistics

from bench.rows import MIB_PER_BYTE, Row
from bench.switch import NEVER, WATCHED
from bench.switching import measure_job

# Long enough for more steps than the ring of the box holds, so that all its pages are in use. The steps are as short as
# the machine can run them.
_SECONDS = 12.0


def measure(repeats: int) -> list[Row]:
    """Return medians over ranks and repeats."""
    watched, without = [], []
    for _ in range(repeats):
        watched += measure_job("ddp", 2, _SECONDS, 0.0, WATCHED)
        without += measure_job("ddp", 2, _SECONDS, 0.0, NEVER)
    rows = []
    for kind, name in (("rss", "resident (the box included)"), ("pss", "proportional"), ("private", "private")):
        baseline = statistics.median(rank["memory"][kind] for rank in without)
        added = statistics.median(rank["memory"][kind] for rank in watched) - baseline
        rows.append(Row(f"memory of a rank, {name}, without zmon", baseline * MIB_PER_BYTE, "MiB"))
        rows.append(Row(f"memory of a rank, {name}, added by zmon", added * MIB_PER_BYTE, "MiB"))
    for part in ("import", "attach"):
        seconds = statistics.median(rank[f"{part}_seconds"] for rank in watched)
        rows.append(Row(f"start: {part}, with torch loaded", seconds * 1000, "ms"))
    return rows
