"""The delay until a slow rank is reported, and the rate of false reports, depending on the noise of the ranks.

    python -m bench.straggler [--trials N] [--hours H]

This is a simulation. It takes two minutes. The self time of a rank has two parts: waiting for data (15 % of a normal
step) and computation (85 %). In each step, both parts of each rank are drawn from lognormal distributions with the same
spread. The hub makes a pass every second. Only differences between ranks count: noise that all ranks have in common
cancels out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import NamedTuple

from bench.cluster import RANK
from bench.rows import parser_of, table_line
from zmon.detectors.slow import Straggler
from zmon.hub import HubConfig
from zmon.job.history import History
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.measures import ns
from zmon.schema.steps import MEAN, MEAN_STEPS, STEP, Steps
from zmon.stats import quantile

_HEADS = (
    "ranks", "step", "spread", "change of the slow rank", "reported", "correct", "median", "p90", "steps", "in time",
    "false per h",
)  # fmt: skip
_DATA = 0.15  # the part of self time that is waiting for data
_COLLECTIVES = 0.02  # the part of a normal step in collectives
PASS_SECONDS = 1.0  # between two passes of the hub
_HISTORY_SECONDS, _HISTORY_STEPS = 20.0, 48  # the healthy history before a rank becomes slow has at least both
_TARGET_STEPS, _TARGET_SECONDS = 20, 5.0  # a slow rank should be reported within one of them
# A slow rank must be reported within this many steps and passes, whichever takes longer.
_MAX_STEPS, _MAX_PASSES = 150, 30

Columns = dict[str, list[int]]  # a step of all ranks: column → the number of each rank


class Slowdown(NamedTuple):
    """The time that a slow rank adds to a normal step."""

    computation: float  # added to its computation, as a ratio of it
    input: float  # added to its wait for data, as a ratio of the step


_NORMAL = Slowdown(0.0, 0.0)
_SLOWDOWNS = {"computing takes × 1.5": Slowdown(0.5, 0.0), "input + half a step": Slowdown(0.0, 0.5)}


def steps_between_samples(step_seconds: float) -> int:
    """Return for how many steps an agent sends one sample.

    It is the least power of two by which a pass of the hub gets at most HubConfig.about_steps samples.
    """
    steps = 1
    while steps * HubConfig.about_steps * step_seconds < PASS_SECONDS:
        steps *= 2
    return steps


def sample(number: int, steps: Sequence[Columns]) -> Steps:
    """Return the last of these steps, with this number, and the mean of all steps beside it."""
    last = steps[-1]
    size = len(next(iter(last.values())))
    means = {
        name: [round(fmean(values)) for values in zip(*(step[name] for step in steps), strict=True)] for name in last
    }
    columns = {STEP: [number] * size, **last, MEAN_STEPS: [len(steps)] * size}
    columns |= {MEAN + name: numbers for name, numbers in means.items()}
    return Steps.from_columns(tuple(map(str, range(size))), (1,) * size, columns)


@dataclass
class Job:
    """A simulated job: its ranks, their steps, and the history that the hub has."""

    size: int
    step_seconds: float
    spread: float  # sigma of the lognormal
    draw: random.Random
    slow_rank: int | None = None
    slowdown: Slowdown = _NORMAL  # of the slow rank

    def __post_init__(self) -> None:
        self.history = History(self.size)
        self.number = 0
        self.seconds = 0.0
        self.every = steps_between_samples(self.step_seconds)
        ranks = tuple(replace(RANK, rank=rank, world_size=self.size) for rank in range(self.size))
        self.snapshot = Snapshot(
            "job", time=0.0, attempt=0, world_size=self.size, ranks=ranks, missing=(), unwatched=(), agents=()
        )

    def train(self) -> None:
        """Simulate the steps up to the next one that the hub receives."""
        steps = [self._step() for _ in range(self.every)]
        self.number += self.every
        self.history.add([sample(self.number, steps)], {str(rank): rank for rank in range(self.size)})

    def _step(self) -> Columns:
        self_times = [self._self_time(rank) for rank in range(self.size)]
        self.seconds += (max(map(sum, self_times)) + _COLLECTIVES) * self.step_seconds
        return {
            "phase_data": [ns(data * self.step_seconds) for data, _ in self_times],
            "phase_forward": [ns(rest * self.step_seconds) for _, rest in self_times],
        }

    def _self_time(self, rank: int) -> tuple[float, float]:
        """Return the rank's wait for data and the rest of its self time, as ratios of a normal step."""
        data, rest = (part * self.draw.lognormvariate(0.0, self.spread) for part in (_DATA, 1 - _DATA))
        slowdown = self.slowdown if rank == self.slow_rank else _NORMAL
        return data + slowdown.input, rest * (1 + slowdown.computation)

    def culprits(self) -> tuple[int, ...] | None:
        """Return the ranks that the detector reports now, or None."""
        findings = Straggler().detect(replace(self.snapshot, steps=tuple(self.history.steps)))
        return findings[0].ranks if findings else None


def main() -> None:
    """Simulate and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--trials", type=int, default=60, help="trials of each kind of slow rank (60)")
    parser.add_argument("--hours", type=float, default=1.0, help="hours of each healthy job (1)")
    arguments = parser.parse_args()
    print(table_line(_HEADS, _HEADS), flush=True)
    for spread in (0.05, 0.15, 0.30):
        for step_seconds in (0.02, 0.25, 2.0):
            for size in (2, 4, 8):
                for cells in _rows(size, step_seconds, spread, arguments.trials, arguments.hours):
                    print(table_line(cells, _HEADS), flush=True)


def _rows(size: int, step_seconds: float, spread: float, trials: int, hours: float) -> Iterator[Sequence[str]]:
    false_reports = f"{_false_reports(size, step_seconds, spread, hours) / hours:.1f}"
    for name, slowdown in _SLOWDOWNS.items():
        results = [_trial(size, step_seconds, spread, slowdown, seed) for seed in range(trials)]
        reports = [report for report in results if report is not None]
        seconds = [report.seconds for report in reports]
        yield (
            str(size), f"{step_seconds * 1000:.0f} ms", f"{spread:.0%}", name, f"{len(reports) / trials:.0%}",
            f"{sum(report.is_correct for report in reports) / max(len(reports), 1):.0%}",
            f"{median(seconds):.1f} s" if reports else "", f"{quantile(seconds, 0.9):.1f} s" if reports else "",
            f"{median(report.num_steps for report in reports):.0f}" if reports else "",
            f"{sum(report.is_in_time for report in reports) / trials:.0%}", false_reports,
        )  # fmt: skip


@dataclass(frozen=True)
class Report:
    """The first report after a rank became slow."""

    seconds: float  # since the rank became slow
    num_steps: int  # since then
    is_correct: bool  # it names only this rank

    @property
    def is_in_time(self) -> bool:
        """True if the target is met."""
        return self.num_steps <= _TARGET_STEPS or self.seconds <= _TARGET_SECONDS


def _trial(size: int, step_seconds: float, spread: float, slowdown: Slowdown, seed: int) -> Report | None:
    """Simulate one slow rank; return the first report, or None if there is none."""
    job = Job(size, step_seconds, spread, random.Random(seed))
    while job.seconds < _HISTORY_SECONDS or len(job.history.steps) < _HISTORY_STEPS:
        job.train()
    job.slow_rank = job.draw.randrange(size)
    job.slowdown = slowdown
    onset = job.number
    begin = job.seconds
    next_pass = job.seconds + job.draw.uniform(0, PASS_SECONDS)
    while job.number - onset < _MAX_STEPS or job.seconds - begin < _MAX_PASSES * PASS_SECONDS:
        job.train()
        if job.seconds >= next_pass:
            next_pass += PASS_SECONDS
            if (culprits := job.culprits()) is not None:
                return Report(job.seconds - begin, job.number - onset, culprits == (job.slow_rank,))
    return None


def _false_reports(size: int, step_seconds: float, spread: float, hours: float) -> int:
    """Return how many reports open in a healthy job."""
    job = Job(size, step_seconds, spread, random.Random(1))
    next_pass = 0.0
    is_open = False
    number = 0
    while job.seconds < 3600 * hours:
        job.train()
        if job.seconds >= next_pass:
            next_pass = job.seconds + PASS_SECONDS
            is_reported = job.culprits() is not None
            number += is_reported and not is_open
            is_open = is_reported
    return number


if __name__ == "__main__":
    main()
