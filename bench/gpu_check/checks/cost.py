"""Measures the cost of device events: of one mark, and of a watched step compared with the same step without zmon.

Both run in one process that changes its mode between blocks. The host's processor time is not compared, because a host
that waits for a GPU spins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.gpu_check.kit import Kit
from bench.gpu_check.records import MarkCosts, ProbeMode
from bench.gpu_check.result import FAILED, MEASURED, Result, outcome_of
from bench.gpu_check.settings import Setting
from bench.ranks import run_job
from bench.rows import PERCENT, US_PER_SECOND
from bench.switching import MODES, Cost, costs, trimmed_mean

# A generous limit, to notice a call that waits for the device: recording an event takes some microseconds.
MARK_SECONDS = 50e-6
# The device is busy for 20 ms in a step and hides the work of the host, so a larger difference is a wait.
STEP_PERCENT = 2.0
_ROUNDS = 40
_LIMIT_SECONDS = 90.0


@dataclass(frozen=True)
class MeasuredStep:
    """A kind of step whose cost is measured."""

    name: str
    seconds: float  # for all steps of this kind
    step_seconds: float  # how long a kernel keeps the device busy in each step
    is_limited: bool = False  # True: STEP_PERCENT is its limit


_STEPS = (
    MeasuredStep("step with 20 ms on the device", 24.0, 0.020, is_limited=True),
    MeasuredStep("step as short as the host can submit it", 12.0, 0.0),
)


def run(kit: Kit, setting: Setting) -> Iterator[Result]:
    """Measure marks, then each kind of step."""
    job = kit.run(setting, "marks", str(_ROUNDS), seconds=_LIMIT_SECONDS)
    yield from compare_marks(job.records(MarkCosts)[0])
    for step in _STEPS:
        folder = kit.new_folder()
        limit = kit.seconds_left(_LIMIT_SECONDS)
        arguments = ("ddp", str(step.seconds), str(step.step_seconds), "device", *MODES)
        run_job(folder, "bench.job", *arguments, seconds=limit, ranks=setting.num_ranks)
        ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(setting.num_ranks)]
        for cost in costs(ranks):
            yield from step_results(f"{step.name}, rank {cost.rank}", cost, step.is_limited)


def compare_marks(costs: MarkCosts) -> Iterator[Result]:
    """Yield the seconds that a change of phase adds, with the host's clock and with events."""
    if not costs.has_device_events:
        yield Result("cost of a mark", FAILED, note="there are no events")
        return
    absent = np.array(costs.by_mode[ProbeMode.ABSENT])
    for mode in (ProbeMode.HOST_CLOCK, ProbeMode.EVENTS):
        added = trimmed_mean(np.array(costs.by_mode[mode]) - absent)
        is_limited = mode is ProbeMode.EVENTS
        outcome = outcome_of(added.value <= MARK_SECONDS) if is_limited else MEASURED
        limit = f"; limit {MARK_SECONDS * US_PER_SECOND:g} µs" if is_limited else ""
        yield Result(
            f"added by a change of phase with {mode}", outcome, added.value * US_PER_SECOND, "µs",
            f"without zmon, in turns{limit}", f"95 %: {added.text(US_PER_SECOND)}",
        )  # fmt: skip


def step_results(name: str, cost: Cost, is_limited: bool) -> Iterator[Result]:
    """Yield the time that zmon adds to a step by the wall clock."""
    yield Result(f"{name}: without zmon", MEASURED, cost.step * US_PER_SECOND, "µs")
    yield Result(f"{name}: overhead that zmon reports", MEASURED, cost.reported * US_PER_SECOND, "µs")
    for part, seconds in (("added by zmon", cost.wall), ("floor (A/A)", cost.wall_floor)):
        interval = f"95 %: {seconds.text(US_PER_SECOND)}"
        yield Result(f"{name}: {part}", MEASURED, seconds.value * US_PER_SECOND, unit="µs", note=interval)
    percent = cost.wall.value / cost.step * PERCENT
    outcome = outcome_of(percent <= STEP_PERCENT) if is_limited else MEASURED
    yield Result(f"{name}: of the step", outcome, percent, "%", f"limit {STEP_PERCENT:g} %" if is_limited else "")
