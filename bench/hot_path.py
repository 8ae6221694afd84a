"""The cost of one step in an otherwise empty loop: 8 phases, 5 collectives and a record in a real box.

Caches are warm and branches are predicted, so this is a lower bound of the cost, for comparing versions of the code.
bench.switching measures the cost in a real job.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from bench.rows import US_PER_SECOND, Row
from zmon.box import BoxWriter
from zmon.probe.edge import PYTHON, C
from zmon.probe.interface import JobInterface
from zmon.probe.rank import OP_NUMBER, PHASE_NUMBER, RankTimeline

_PHASES = tuple(PHASE_NUMBER.values())
_OPS = tuple(OP_NUMBER[name] for name in ("all_to_all", "all_to_all", "all_to_all", "all_reduce", "barrier"))
_STEPS = 1000


def mark_step(timeline: RankTimeline, group: int) -> None:
    """Write to the box what a step with 8 phases and 5 collectives writes."""
    timeline.begin_step(None)
    for phase in _PHASES:
        timeline.phase(phase)
    for op in _OPS:
        timeline.enter_op(op, group, 4096, 4096)
        timeline.leave_op()
    timeline.end_step()


def measure(rounds: int) -> list[Row]:
    """Measure each edge, the hot path in Python or in C, as local rank 0 and as another rank, in turns.

    Only local rank 0 reads the counters of the network interface.
    """
    edges = [edge for edge in (PYTHON, C) if edge is not None]
    cases = [(edge, interface) for edge in edges for interface in (JobInterface("lo"), None)]
    with tempfile.TemporaryDirectory(prefix="zmon-bench-", dir="/dev/shm") as folder:
        timelines = [
            edge.make_timeline(BoxWriter(Path(folder) / f"job/0/rank-{rank}.box"), interface)
            for rank, (edge, interface) in enumerate(cases)
        ]
        seconds: list[list[float]] = [[] for _ in cases]
        for _ in range(rounds):
            for timeline, seconds_of_case in zip(timelines, seconds, strict=True):
                seconds_of_case.append(_step_seconds(timeline))
    rows = []
    for (edge, interface), seconds_of_case in zip(cases, seconds, strict=True):
        case = f"{edge.name} edge, {'another rank' if interface is None else 'local rank 0'}"
        rows.append(Row(f"{case}, median of rounds", statistics.median(seconds_of_case) * US_PER_SECOND, "µs"))
        rows.append(Row(f"{case}, fastest", min(seconds_of_case) * US_PER_SECOND, "µs"))
    return rows


def _step_seconds(timeline: RankTimeline) -> float:
    group = timeline.group("0", 4)
    begin = time.perf_counter()
    for _ in range(_STEPS):
        mark_step(timeline, group)
    return (time.perf_counter() - begin) / _STEPS
