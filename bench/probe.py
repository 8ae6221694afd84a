"""What one step costs the training process: 7 phases, 5 collectives, its record, into a real box.

Prints microseconds per step, and the same as a share of a 2 ms and a 20 ms step. Run: python -m bench.probe
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from zmon.box import BoxWriter
from zmon.interface import JobInterface
from zmon.probe.rank import OP_NUMBER, PHASE_NUMBER, RankTimeline

STEPS = 2000
ROUNDS = 9


def cost_of_a_step(timeline: RankTimeline) -> float:
    """Seconds per step with nothing in it but the marks."""
    phases = list(PHASE_NUMBER.values())
    ops = [OP_NUMBER[name] for name in ("all_to_all", "all_to_all", "all_to_all", "all_reduce", "barrier")]
    group = timeline.group("0", 4)
    begin = time.perf_counter()
    for _ in range(STEPS):
        timeline.begin_step(None)
        for phase in phases:
            timeline.phase(phase)
        for op in ops:
            timeline.enter_op(op, group, 4096, 4096)
            timeline.leave_op()
        timeline.ledger.work(512, 8192)
        timeline.end_step()
    return (time.perf_counter() - begin) / STEPS


def main() -> None:
    """Measure on this machine and print."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        timeline = timeline(Path(folder))
        costs = [cost_of_a_step(timeline) for _ in range(ROUNDS)]
    low, middle = min(costs), statistics.median(costs)
    print("a step of 7 phases, 5 collectives, its record and two NIC readings")
    print(f"  {middle * 1e6:.1f} µs (median of {ROUNDS} × {STEPS} steps; fastest {low * 1e6:.1f} µs)")
    for step in (0.002, 0.020):
        print(f"  {middle / step:.2%} of a step of {step * 1000:g} ms")


if __name__ == "__main__":
    main()
