"""Measures the cost of device events: of one mark, and of a watched step compared with the same step without zmon.

Both run in one process that changes its mode between blocks. The host's processor time is not compared, because a host
that waits for a GPU spins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from bench.gpu_check.kit import Kit
from bench.gpu_check.records import ABSENT, EVENTS, HOST_CLOCK, MarkCosts
from bench.gpu_check.result import FAILED, MEASURED, Result, judged
from bench.gpu_check.settings import Setting
from bench.ranks import run_job
from bench.rows import MICRO, Row
from bench.switching import MODES, compare, trimmed_mean

# A generous limit, to notice a call that waits for the device: recording an event takes some microseconds.
MARK_SECONDS = 50e-6
# The device is busy for 20 ms in a step and hides what the host does, so a larger difference is a wait.
STEP_PERCENT = 2.0
_ROUNDS = 40
_STEPS = {"step with 20 ms on the device": (1200, 0.020), "step as short as the host can submit it": (3000, 0.0)}
_OF_STEP = "watched, wall, of the step"  # the row of bench.switching
_SHOWN = ("without zmon", "overhead that zmon reports", "watched, wall", _OF_STEP)
_LIMIT_SECONDS = 90.0


def run(kit: Kit, setting: Setting) -> Iterator[Result]:
    """Run both jobs."""
    job = kit.run(setting, "marks", str(_ROUNDS), seconds=_LIMIT_SECONDS)
    yield from compare_marks(job.records(MarkCosts)[0])
    for number, (name, (steps, seconds)) in enumerate(_STEPS.items()):
        folder = kit.new_folder()
        limit = kit.seconds(_LIMIT_SECONDS)
        run_job(folder, "bench.job", str(steps), str(seconds), "device", *MODES, seconds=limit, ranks=setting.ranks)
        ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(setting.ranks)]
        yield from step_results(name, compare(ranks), is_limited=number == 0)


def compare_marks(costs: MarkCosts) -> Iterator[Result]:
    """Yield the seconds that a change of phase adds, with the host's clock and with events."""
    if not costs.device_events:
        yield Result("cost of a mark", FAILED, note="there are no events")
        return
    absent = np.array(costs.by_mode[ABSENT])
    for mode in (HOST_CLOCK, EVENTS):
        added, low, high = trimmed_mean(np.array(costs.by_mode[mode]) - absent)
        verdict = judged(added <= MARK_SECONDS) if mode == EVENTS else MEASURED
        limit = f"; limit {MARK_SECONDS * MICRO:g} µs" if mode == EVENTS else ""
        yield Result(
            f"added by a change of phase with {mode}", verdict, added * MICRO, "µs",
            f"without zmon, in turns{limit}", f"95 %: {low * MICRO:.2f} … {high * MICRO:.2f}",
        )  # fmt: skip


def step_results(name: str, rows: list[Row], is_limited: bool) -> Iterator[Result]:
    """Yield the rows of bench.switching about the wall clock; only a step that hides the host's work has a limit."""
    for row in rows:
        if row.what in _SHOWN:
            checked = is_limited and row.what == _OF_STEP
            interval = "" if row.low is None else f"95 %: {row.low:.2f} … {row.high:.2f}"
            verdict = judged(row.value <= STEP_PERCENT) if checked else MEASURED
            limit = f"limit {STEP_PERCENT:g} %" if checked else ""
            yield Result(f"{name}: {row.what}", verdict, row.value, row.unit, limit, interval)
