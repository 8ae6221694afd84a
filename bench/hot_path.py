"""The cost of one step in an otherwise empty loop: 7 phases, 5 collectives and a record in a real box.

Caches are warm and branches are predicted, so this is a lower bound of the cost. It is good for optimization.
bench.switching measures the cost in a real job.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from bench.rows import MICRO, Row
from zmon.box import BoxWriter
from zmon.probe import edge
from zmon.probe.edge import Edge
from zmon.probe.interface import JobInterface
from zmon.probe.rank import OP_NUMBER, PHASE_NUMBER, RankTimeline

_PHASES = tuple(PHASE_NUMBER.values())
_OPS = tuple(OP_NUMBER[name] for name in ("all_to_all", "all_to_all", "all_to_all", "all_reduce", "barrier"))
_STEPS = 1000


def mark_step(timeline: RankTimeline, group: int) -> None:
    """Write to the box what a step with 7 phases and 5 collectives writes."""
    timeline.begin_step(None)
    for phase in _PHASES:
        timeline.phase(phase)
    for op in _OPS:
        timeline.enter_op(op, group, 4096, 4096)
        timeline.leave_op()
    timeline.end_step()


def measure(rounds: int) -> list[Row]:
    """Measure in turns each edge, as local rank 0, which also reads the network interface, and as another rank."""
    seconds: dict[str, list[float]] = {}
    timelines = []
    with tempfile.TemporaryDirectory(prefix="zmon-bench-", dir="/dev/shm") as folder:
        for each in filter(None, (edge.PYTHON, edge.C)):
            for name, interface in (("local rank 0", JobInterface("lo")), ("another rank", None)):
                timelines.append(_timeline(Path(folder), len(seconds), each, interface))
                seconds[f"{each.name} edge, {name}"] = []
        for _ in range(rounds):
            for timeline, costs in zip(timelines, seconds.values(), strict=True):
                costs.append(_cost(timeline))
    return [
        Row(f"{kind}, {name}", statistic(costs) * MICRO, "µs")
        for kind, costs in seconds.items()
        for name, statistic in (("median of rounds", statistics.median), ("fastest", min))
    ]


def _cost(timeline: RankTimeline) -> float:
    group = timeline.group("0", 4)
    begin = time.perf_counter()
    for _ in range(_STEPS):
        mark_step(timeline, group)
    return (time.perf_counter() - begin) / _STEPS


def _timeline(folder: Path, rank: int, edge: Edge, interface: JobInterface | None) -> RankTimeline:
    box = BoxWriter(folder / f"job/0/rank-{rank}.box")
    return edge.make_timeline(box, interface)
